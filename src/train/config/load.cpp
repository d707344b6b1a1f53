#include "train/config/load.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files.h"
#include "model/models.h"
#include "train/config/document.h"
#include "train/config/imagenet_file.h"
#include "train/config/schema.h"
#include "train/config/tutorial_flags.h"

namespace ct {
namespace {

using document::fail_at;
using document::Kind;
using document::Mark;
using document::Node;
using document::quoted;

constexpr const char* kReplacedWhole[] = {"optimizer", "scheduler"};

/// DeepSpeed's other name of a block.
constexpr const char *kBf16 = "bf16", *kBf16Alias = "bfloat16";

bool is_note(const std::string& key) { return key.rfind('_', 0) == 0 || key.rfind("x-", 0) == 0; }

bool is_parameter(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot != std::string::npos &&
         (key.substr(0, dot) == "optimizer.params" || key.substr(0, dot) == "scheduler.params");
}

bool begins(const std::string& key, const std::string& prefix) { return key.rfind(prefix, 0) == 0; }

bool is_text(const ConfigField& field) {
  return std::holds_alternative<std::string*>(field.target) || std::holds_alternative<Choice>(field.target);
}

/// Names an optimizer, a scheduler or a model, which have keys of their own.
bool is_type(const ConfigField& field) {
  return std::holds_alternative<std::optional<optim::Optimizer>*>(field.target) ||
         std::holds_alternative<optim::LrSchedule*>(field.target) || field.key == "model.name";
}

/// DeepSpeed's "auto" for one of its numbers: what follows from other keys, or else the value of an absent key. Words
/// of our own vocabulary that are called so have their own meaning.
bool is_left_open(const ConfigField& field, const Node& node) {
  constexpr const char* kDeepSpeed[] = {"optimizer.params.", "scheduler.params.", "zero_optimization.", "fp16."};
  const bool theirs =
      field.key.find('.') == std::string::npos
          ? field.key != "seed"
          : std::ranges::any_of(kDeepSpeed, [&](const char* block) { return begins(field.key, block); });
  const bool switch_or_word = std::holds_alternative<bool*>(field.target) || is_text(field);
  return theirs && !switch_or_word && node.kind == Kind::text && node.text == "auto";
}

/// A word that says no more than an earlier source: DeepSpeed's "auto", or a switch's own that leaves it open.
bool gives_way(const ConfigField& field, const Node& node) {
  const bool open = !field.rule.open.empty() && node.kind == Kind::text && node.text == field.rule.open;
  return open || is_left_open(field, node);
}

/// data.augment may end in {normalize: {mean: ..., std: ...}}, as lists of torchvision's do: that is data.normalize.
std::optional<document::Entry> take_normalize(Node& steps) {
  std::optional<document::Entry> taken;
  for (const Node& step : steps.items) {
    if (taken)
      fail_at(taken->mark, "data.augment normalize comes last: the other steps change the pixels that it normalises");
    const bool with_parameters = step.kind == Kind::map && step.entries.size() == 1;
    if (step.text != "normalize" && !(with_parameters && step.entries[0].key == "normalize")) continue;
    const auto has = [&](const char* key) {
      const std::vector<document::Entry>& numbers = step.entries[0].value.entries;
      return std::ranges::find(numbers, key, &document::Entry::key) != numbers.end();
    };
    if (!with_parameters || !has("mean") || !has("std"))
      fail_at(step.mark, "data.augment normalize needs its numbers: {normalize: {mean: [0.5], std: [0.5]}}");
    taken = step.entries[0];
  }
  if (taken) steps.items.pop_back();
  return taken;
}

/// The block `data` of one source must say it in one of the two ways.
void require_one_normalize(const Node& data) {
  const document::Entry *key = nullptr, *step = nullptr;
  for (const document::Entry& entry : data.entries) {
    Node steps = entry.value;
    if (entry.key == "normalize" && !entry.value.entries.empty()) key = &entry;
    if (entry.key == "augment" && take_normalize(steps)) step = &entry;
  }
  if (key && step)
    fail_at(key->mark, "data.normalize is given by the last step of data.augment too (", step->value.mark.text(),
            "); remove one");
}

/// All sources laid over each other: dotted key -> the value that counts, still unread.
class Merge {
 public:
  Merge() : bound_(configs_of_all_types()) {
    std::set<std::string> keys;
    for (Config& config : bound_)
      for (ConfigField& field : config_fields(config))
        if (keys.insert(field.key).second) fields_.push_back(std::move(field));
  }

  const std::map<std::string, Node>& values() const { return values_; }
  const Node* find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

  void add_file(const Node& root) {
    for (const Node& layer : in_own_words(root)) add_layer(layer);
  }

  void add_override(const ConfigOverride& word) {
    const auto origin = std::make_shared<document::Origin>(document::Origin{word.origin, /*positions=*/false});
    const Mark mark{origin, 0, 0};
    for (const char* block : kReplacedWhole) {
      if (word.key == block) forget(block);
      if (word.key == str(block, ".type")) forget(str(block, ".params"));
    }
    Node value = override_value(word, origin);
    value.mark = mark;
    if (value.text == "auto") values_.erase(word.key);  // asked for by name, it is more than a file's silence
    add_path(word.key, "", mark, value);
  }

 private:
  void add_layer(const Node& root) {
    const auto given = [&](const char* key) {
      return std::any_of(root.entries.begin(), root.entries.end(), [&](const auto& entry) { return entry.key == key; });
    };
    for (const document::Entry& entry : root.entries)
      if (entry.key == kBf16Alias && given(kBf16))
        fail_at(entry.mark, kBf16Alias, " is another name of ", kBf16, ", which is given too; remove one");
    for (const document::Entry& entry : root.entries)
      for (const char* block : kReplacedWhole)
        if (entry.key == block) forget(block);
    add_map(root, "");
  }

  static std::string key_of(const std::string& block, const std::string& name) {
    return block.empty() && name == kBf16Alias ? kBf16 : block + name;
  }

  void forget(const std::string& block) {
    std::erase_if(values_, [&](const auto& value) { return begins(value.first, block + "."); });
  }

  /// Text keys take the words after '=' as they stand, so that --set output=2024 needs no second pair of quotes.
  Node override_value(const ConfigOverride& word, const std::shared_ptr<const document::Origin>& origin) const {
    for (const ConfigField& field : fields_) {
      const bool text = is_text(field) || is_type(field);
      if (field.key != word.key || !text) continue;
      if (!word.value.empty() && (word.value[0] == '"' || word.value[0] == '\'')) break;
      Node node;
      node.kind = Kind::text;
      node.text = word.value;
      return node;
    }
    return document::parse_yaml(word.value, origin);
  }

  void add_path(const std::string& rest, const std::string& block, const Mark& mark, const Node& value) {
    const size_t dot = rest.find('.');
    const std::string name = rest.substr(0, dot);
    if (dot == std::string::npos) return add(name, block, mark, value);
    const std::string key = key_of(block, name);
    if (is_note(name)) return;
    if (find_foreign(key) && !is_config_block(key, fields_)) return add(name, block, mark, value);
    if (!is_config_block(key, fields_)) unknown(block + rest, mark);
    add_path(rest.substr(dot + 1), key + ".", mark, value);
  }

  void add_map(const Node& map, const std::string& block) {
    if (block == "data.") require_one_normalize(map);
    for (const document::Entry& entry : map.entries) add(entry.key, block, entry.mark, entry.value);
  }

  void add(const std::string& name, const std::string& block, const Mark& mark, const Node& value) {
    if (is_note(name)) return;
    const std::string key = key_of(block, name);
    const bool dotted = name.find('.') != std::string::npos;
    const auto field = std::find_if(fields_.begin(), fields_.end(), [&](const auto& f) { return f.key == key; });
    const bool is_field = field != fields_.end();
    if (!dotted && !is_field && is_config_block(key, fields_)) {
      if (value.kind != Kind::map && value.kind != Kind::null)
        fail_at(value.mark, key, " is a block of keys, found ", quoted(document::flow(value)));
      return add_map(value, key + ".");
    }
    // Which parameters exist depends on the type, which a later source may still change.
    if (dotted || !(is_field || is_parameter(key) || find_foreign(key))) unknown(key, mark);
    if (is_field && gives_way(*field, value) && values_.contains(key)) return;  // an earlier source has said it
    Node kept = value;
    if (key == "data.augment")
      if (const auto normalize = take_normalize(kept)) add("normalize", block, normalize->mark, normalize->value);
    if (kept.kind == Kind::null) kept.mark = mark;  // an empty value stands at its key
    values_[key] = std::move(kept);
  }

  [[noreturn]] void unknown(const std::string& key, const Mark& mark) const {
    fail_at(mark, "unknown key ", quoted(key), suggest_key(key, fields_));
  }

  std::vector<Config> bound_;        // only their keys matter here
  std::vector<ConfigField> fields_;  // of all types
  std::map<std::string, Node> values_;
};

ConfigOverride split_set(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(ExitCode::usage, "--set ", quoted(word), ": write --set key=value, such as --set train.epochs=1");
  return {word.substr(0, equals), word.substr(equals + 1), "--set " + word};
}

void read_fields(const Merge& merge, Config& config, std::vector<std::string>* warnings) {
  std::string open;
  for (const bool types : {true, false})  // which decide what other keys there are
    for (const ConfigField& field : config_fields(config)) {
      const Node* node = is_type(field) == types ? merge.find(field.key) : nullptr;
      if (!node) continue;
      if (!is_left_open(field, *node)) {
        read_field(field, *node);
        config.origins[field.key] = node->mark.text();
        continue;
      }
      const std::string_view rate = std::visit([](const auto& s) { return s.kOverridesLr; }, config.scheduler);
      if (config.optimizer && field.key == str("scheduler.params.", rate)) {
        const double lr = std::visit([](const auto& o) { return o.rates().lr; }, *config.optimizer);
        if (auto* const* target = std::get_if<double*>(&field.target)) **target = lr;
        if (auto* const* target = std::get_if<std::optional<double>*>(&field.target)) **target = lr;
      }
      const bool follows = std::holds_alternative<std::optional<int64_t>*>(field.target) ||
                           std::holds_alternative<std::optional<bool>*>(field.target);
      open += str(open.empty() ? "" : ", ", field.key, follows ? "" : str(" ", field_text(field)));
    }
  if (!open.empty()) warnings->push_back("\"auto\" is taken as what follows from other keys, or the default: " + open);
}

/// Every given parameter must belong to the type that won.
void check_parameters(const Merge& merge, const Config& config) {
  Config copy = config;
  const std::vector<ConfigField> fields = config_fields(copy);
  for (const std::string block : {"optimizer", "scheduler"}) {
    const std::string prefix = block + ".params.";
    std::string type;
    std::vector<std::string> names;
    for (const ConfigField& field : fields) {
      if (field.key == block + ".type") type = field_text(field);
      if (begins(field.key, prefix)) names.push_back(field.key.substr(prefix.size()));
    }
    for (const auto& [key, node] : merge.values()) {
      if (!begins(key, prefix)) continue;
      const std::string name = key.substr(prefix.size());
      if (name == "max_grad_norm")
        fail_at(node.mark, key, " is not supported: the top-level key gradient_clipping clips by the global norm");
      if (type.empty()) fail_at(node.mark, key, " needs ", block, ".type");
      const bool known = std::find(names.begin(), names.end(), name) != names.end();
      if (!known && !find_foreign(key))
        fail_at(node.mark, "unknown key ", quoted(key), "; ", type, " takes ", join_choices(names));
    }
  }
}

/// Every key of a model must be one that the model takes.
void check_model_keys(const Merge& merge, const Config& config) {
  const auto takes = [](Model model, const std::string& name) {
    const std::vector<ConfigKey> keys = model.keys();
    return std::ranges::find(keys, name, &ConfigKey::name) != keys.end();
  };
  for (const auto& [key, node] : merge.values()) {
    const std::string prefix = "model.", name = begins(key, prefix) ? key.substr(prefix.size()) : "name";
    if (name == "name" || find_foreign(key) || takes(config.model, name)) continue;
    std::vector<std::string> others;
    for (const std::string& other : model_names())
      if (takes({.name = other}, name)) others.push_back(other);
    fail_at(node.mark, key, " is no key of the model ", config.model.name, "; ", join_choices(others),
            others.size() == 1 ? " takes it" : " take it");
  }
}

/// One line for each kind of thing ignored; an error for a value that would change the result.
void check_foreign(const Merge& merge, const std::vector<ConfigField>& fields, std::vector<std::string>* warnings) {
  std::string ignored;
  for (const auto& [key, node] : merge.values()) {
    const bool is_field =
        std::any_of(fields.begin(), fields.end(), [&k = key](const auto& field) { return field.key == k; });
    const ForeignKey* foreign = is_field ? nullptr : find_foreign(key);
    if (!foreign) continue;
    const std::string value = document::flow(node);
    if (foreign->harmless.empty()) fail_at(node.mark, key, " is not supported by this version; remove it");
    const bool harmless = foreign->harmless == "*" || node.kind == Kind::null || value == foreign->harmless;
    if (!harmless)
      fail_at(node.mark, key, " ", value, " is not supported by this version; use ", foreign->harmless,
              foreign->why.empty() ? "" : ": " + foreign->why);
    ignored += (ignored.empty() ? "" : ", ") + key;
  }
  if (!ignored.empty()) warnings->push_back("ignored, as they change nothing here: " + ignored);
}

/// Checks that every group has parameters, by the model's names and shapes.
void check_groups(const Config& config, const std::string& where) {
  if (config.optimizer_groups.empty()) return;
  const int64_t side = some_side(config.model);
  const InputSpec any{
      .batch = 1, .height = side, .width = side, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = Mode::evaluate};
  try {
    optim::treatments(build_graph(find_model(config.model), any), config.optimizer_groups, 0);
  } catch (const Error& error) {
    fail(error.code(), where, error.what());
  }
}

/// Rules between keys.
void check_together(const Config& config, std::vector<std::string>* warnings) {
  const auto at = [&](const std::string& key) {
    const auto found = config.origins.find(key);
    return (found == config.origins.end() ? std::string("default") : found->second) + ": ";
  };
  if (config.fp16.enabled && config.bf16.enabled == true)
    fail(ExitCode::usage, at("fp16.enabled"), "fp16.enabled and bf16.enabled are both true; switch one off");
  if (config.fp16.enabled && config.fp16.loss_scale == 0 &&
      config.fp16.min_loss_scale > std::ldexp(1.0, static_cast<int>(config.fp16.initial_scale_power)))
    fail(ExitCode::usage, at("fp16.min_loss_scale"),
         "fp16.min_loss_scale is above the first scale, 2^fp16.initial_scale_power; lower it");
  const auto check_keys = [&](const std::string& block, const char* name, const std::optional<ConfigFault>& fault) {
    if (!fault) return;
    const std::string key = block + fault->key;
    fail(ExitCode::usage, at(config.origins.contains(key) ? key : name), key, " ", fault->text);
  };
  check_keys("model.", "model.name", config.model.fault());
  check_keys("optimizer.params.", "optimizer.type", optim::fault_of(*config.optimizer));
  check_keys("scheduler.params.", "scheduler.type", optim::fault_of(config.scheduler));
  if (const std::string doubt = optim::doubt_of(config.scheduler); !doubt.empty())
    warnings->push_back("scheduler.params." + doubt);
  check_groups(config, at("optimizer.groups"));
  if (const std::string& job = config.tensorboard.job_name; job.find('/') != std::string::npos || job == "..")
    fail(ExitCode::usage, at("tensorboard.job_name"), "tensorboard.job_name names one folder in ",
         "tensorboard.output_path, found ", quoted(job));
  if (config.data.resize < config.data.size)
    fail(ExitCode::usage, at(config.origins.contains("data.resize") ? "data.resize" : "data.size"),
         "data.resize is less than data.size, which is cut from it: ", config.data.resize, " and ", config.data.size);
  if (config.train.best.split == BestSplit::val && config.data.validation == 0)
    fail(ExitCode::usage, at("train.best.split"), "train.best.split val needs data.validation above 0");
  if (config.train.early_stopping.patience > 0 && config.train.best.split == BestSplit::last)
    fail(ExitCode::usage, at("train.early_stopping.patience"),
         "train.early_stopping.patience needs train.best.split val or test to watch");
  const std::string_view of_schedule = std::visit([](const auto& s) { return s.kOverridesLr; }, config.scheduler);
  Config copy = config;
  std::string lr, instead;
  for (const ConfigField& field : config_fields(copy)) {
    if (field.key == "optimizer.params.lr") lr = field_text(field);
    if (field.key == str("scheduler.params.", of_schedule)) instead = field_text(field);
  }
  if (!instead.empty() && instead != lr && config.origins.contains("optimizer.params.lr"))
    warnings->push_back(str("scheduler.params.", of_schedule, " ", instead, " overrides optimizer.params.lr ", lr,
                            ", as in DeepSpeed"));
  if (const std::string betas = optim::overrides_betas(config.scheduler); !betas.empty())
    warnings->push_back(
        optim::has_betas(*config.optimizer)
            ? str("scheduler.params.cycle_momentum overrides optimizer.params.betas, as in DeepSpeed: ", betas)
            : str("scheduler.params.cycle_momentum changes nothing, as in DeepSpeed: ",
                  optim::type_of(*config.optimizer), " has no betas"));
}

Config validate(const Merge& merge, const std::string& where, std::vector<std::string>* warnings) {
  Config config;
  const std::vector<ConfigField> fields = config_fields(config);
  read_fields(merge, config, warnings);
  check_foreign(merge, fields, warnings);
  check_parameters(merge, config);
  check_model_keys(merge, config);
  if (!config.optimizer)
    fail(ExitCode::usage, where,
         "no optimizer is given; add one, such as optimizer: {type: Adam, params: {lr: 0.001}}");
  check_together(config, warnings);
  return config;
}

}  // namespace

Config load_config(const ConfigSources& sources, std::vector<std::string>* warnings) {
  Merge merge;
  for (const auto& file : sources.files) merge.add_file(document::read_file(file));

  std::optional<int64_t> micro;
  if (const Node* node = merge.find("train_micro_batch_size_per_gpu"); node && node->kind == Kind::integer)
    micro = node->integer;
  const Node* decay = merge.find("train.ema.decay");
  const bool has_average = decay && !(decay->is_number() && decay->real == 0);
  std::vector<ConfigOverride> words = tutorial_flag_overrides(sources.flags, micro, has_average, warnings);
  words.insert(words.end(), sources.overrides.begin(), sources.overrides.end());
  for (const std::string& set : sources.sets) words.push_back(split_set(set));
  // A type clears its params, so it goes first: --set optimizer.params.lr=… --set optimizer.type=… means the same
  // either way.
  std::stable_partition(words.begin(), words.end(), [](const ConfigOverride& word) {
    return word.key == "optimizer.type" || word.key == "scheduler.type";
  });
  for (const ConfigOverride& word : words) {
    if (!document::is_text(word.key + word.value))
      fail(ExitCode::usage, word.origin, " ", in_quotes(word.value),
           ": is not text in UTF-8, as all of a configuration is");
    merge.add_override(word);
  }

  return validate(merge, sources.files.empty() ? "" : sources.files.back().string() + ": ", warnings);
}

Config load_config_text(const std::string& text, const std::string& name) {
  Merge merge;
  merge.add_file(document::parse_yaml(text, std::make_shared<document::Origin>(document::Origin{name})));
  std::vector<std::string> warnings;  // said when the run began
  return validate(merge, name + ": ", &warnings);
}

}  // namespace ct
