#include "train/config/schema.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "data/kinds.h"
#include "model/models.h"

namespace ct {
namespace {

using document::fail_at;
using document::flow;
using document::Kind;
using document::Node;
using document::quoted;

template <class... Types>
struct Overload : Types... {
  using Types::operator()...;
};
template <class... Types>
Overload(Types...) -> Overload<Types...>;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Letters left out, put in, replaced, or two neighbours in the wrong order (Damerau and Levenshtein).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last, row(b.size() + 1);  // of a's first i-2, i-1 and i letters, to each start of b
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// How far a typing error may lie from the word that was meant.
size_t tolerance(const std::string& word) { return std::max<size_t>(1, word.size() / 3); }

std::string nearest(const std::string& word, const std::vector<std::string>& choices) {
  std::string best;
  size_t best_distance = tolerance(word) + 1;
  for (const std::string& choice : choices) {
    const size_t distance = edit_distance(lower(word), lower(choice));
    if (distance < best_distance) best = choice, best_distance = distance;
  }
  return best;
}

[[noreturn]] void refuse(const Node& node, const std::string& key, const std::string& value,
                         const std::string& instead) {
  fail_at(node.mark, key, " ", value, " is not supported by this version; use ", instead);
}

[[noreturn]] void wrong_type(const ConfigField& field, const Node& node, const std::string& expected) {
  if (!field.rule.refusal.empty()) fail_at(node.mark, field.key, ": ", field.rule.refusal, flow(node));
  const std::string found = node.kind == Kind::null ? "nothing" : quoted(flow(node));
  fail_at(node.mark, field.key, " expects ", expected, ", found ", found);
}

std::string range_text(const ConfigRule& rule) {
  const bool from = std::isfinite(rule.min), to = std::isfinite(rule.max);
  std::string text;
  if (from) text = (rule.above_min ? "more than " : "at least ") + flow(rule.min);
  if (to) text += (from ? " and " : "") + std::string(rule.below_max ? "less than " : "at most ") + flow(rule.max);
  return text;
}

double checked_number(const ConfigField& field, const Node& node) {
  if (!node.is_number()) wrong_type(field, node, "a number");
  const ConfigRule& rule = field.rule;
  const bool low = node.real < rule.min || (rule.above_min && node.real == rule.min);
  const bool high = node.real > rule.max || (rule.below_max && node.real == rule.max);
  if (low || high) fail_at(node.mark, field.key, " must be ", range_text(rule), ", found ", flow(node));
  return node.real;
}

int64_t checked_integer(const ConfigField& field, const Node& node) {
  if (node.kind == Kind::integer) {
    checked_number(field, node);
    return node.integer;
  }
  // DeepSpeed's files write whole numbers as 5e8 too.
  constexpr double kExact = 1LL << 53;
  if (node.kind != Kind::real || std::floor(node.real) != node.real) wrong_type(field, node, "a whole number");
  if (std::abs(node.real) > kExact)
    fail_at(node.mark, field.key, " has too large a whole number, found ", quoted(node.text));
  return static_cast<int64_t>(checked_number(field, node));
}

bool checked_boolean(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::boolean)
    wrong_type(field, node, field.rule.open.empty() ? "true or false" : "true, false or " + field.rule.open);
  return node.boolean;
}

std::string choices(const ConfigRule& rule) {
  std::vector<std::string> words = rule.values;
  if (!rule.numbered.empty()) words.push_back(rule.numbered + ":N");
  return join_choices(words);
}

std::string checked_text(const ConfigField& field, const Node& node) {
  const ConfigRule& rule = field.rule;
  if (node.kind != Kind::text) {
    const bool scalar = node.kind == Kind::boolean || node.is_number();
    wrong_type(field, node, !rule.values.empty() ? choices(rule) : scalar ? "text (put it in quotes)" : "text");
  }
  const std::string& text = node.text;
  if (text.empty() && !rule.may_be_empty) wrong_type(field, node, "text");
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    wrong_type(field, node, "text on one line, without control characters");
  if (rule.values.empty()) return text;
  const auto same = [&](const std::string& word) { return rule.any_case ? lower(word) == lower(text) : word == text; };
  if (const auto found = std::find_if(rule.values.begin(), rule.values.end(), same); found != rule.values.end())
    return *found;
  if (const std::string prefix = rule.numbered + ":"; !rule.numbered.empty() && text.starts_with(prefix)) {
    const std::string digits = text.substr(prefix.size());
    const auto is_digit = [](unsigned char c) { return c >= '0' && c <= '9'; };
    if (!digits.empty() && digits.size() < 4 && std::all_of(digits.begin(), digits.end(), is_digit)) return text;
  }
  if (!rule.refusal.empty()) wrong_type(field, node, choices(rule));
  for (const std::string& word : rule.later)
    if (same(word) || text.rfind(word + ":", 0) == 0) refuse(node, field.key, text, choices(rule));
  std::vector<std::string> vocabulary = rule.values;
  vocabulary.insert(vocabulary.end(), rule.later.begin(), rule.later.end());
  const std::string near = nearest(text, vocabulary);
  fail_at(node.mark, field.key, " must be ", choices(rule), ", found ", quoted(text),
          near.empty() ? "" : "; did you mean " + near + "?");
}

/// One number for each channel, or one for all.
std::vector<double> checked_list(const ConfigField& field, const Node& node) {
  const bool by_channel = field.key.starts_with("data.normalize.");
  if (node.kind != Kind::list || node.items.empty())
    wrong_type(field, node, str("a list of numbers", by_channel ? ", one for each channel" : ""));
  std::vector<double> numbers;
  for (const Node& item : node.items) numbers.push_back(checked_number(field, item));
  return numbers;
}

std::vector<int64_t> checked_integers(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::list || node.items.empty() || node.items.size() > kMostMicroBatchSizes)
    wrong_type(field, node, str("a list of 1 to ", kMostMicroBatchSizes, " whole numbers"));
  std::vector<int64_t> numbers;
  for (const Node& item : node.items) {
    if (item.kind != Kind::integer || item.real < field.rule.min || item.real > field.rule.max)
      wrong_type(field, node, "whole numbers, " + range_text(field.rule));
    numbers.push_back(item.integer);
  }
  return numbers;
}

std::vector<std::string> checked_words(const ConfigField& field, const Node& node) {
  constexpr size_t kMost = 64;
  if (node.kind != Kind::list || node.items.size() > kMost)
    wrong_type(field, node, str("a list of at most ", kMost, " names"));
  std::vector<std::string> words;
  for (const Node& item : node.items) words.push_back(checked_text(field, item));
  return words;
}

std::string words_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + flow(word);
  return "[" + text + "]";
}

/// seed, or a list of flags.
Compat checked_compat(const ConfigField& field, const Node& node) {
  Compat compat;
  if (node.kind == Kind::text && node.text == "seed") {
    compat.add_all();
    return compat;
  }
  const auto all = words_of(CompatFlag{});
  const std::vector<std::string> words(all.begin(), all.end());
  if (node.kind != Kind::list) wrong_type(field, node, "seed or a list of " + join_choices(words));
  for (const Node& item : node.items) {
    const std::string word = checked_text({field.key, field.target, "", {.values = words}}, item);
    compat.add(of_word(word, CompatFlag{}));
  }
  return compat;
}

std::string compat_text(const Compat& compat) {
  std::string text;
  for (const std::string_view word : words_of(CompatFlag{}))
    if (compat.has(of_word(word, CompatFlag{}))) text += str(text.empty() ? "" : ", ", word);
  return "[" + text + "]";
}

template <size_t N>
std::array<double, N> checked_numbers(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::list || node.items.size() != N) wrong_type(field, node, str("a list of ", N, " numbers"));
  std::array<double, N> numbers;
  for (size_t i = 0; i < N; ++i) numbers[i] = checked_number(field, node.items[i]);
  return numbers;
}

ConfigField as_field(const ConfigKey& key, const std::string& block) {
  return {block + key.name, std::visit([](auto target) { return ConfigTarget(target); }, key.target), key.doc,
          key.rule};
}

const std::vector<std::string> kLaterSteps = {"resize", "center_crop", "translate", "rotate", "random_erasing"};

/// random_crop | {random_crop: {padding: 4}}
AugmentStep read_step(const ConfigField& field, const Node& node) {
  const bool with_parameters = node.kind == Kind::map && node.entries.size() == 1;
  if (!with_parameters && node.kind != Kind::text)
    wrong_type(field, node, "a list of steps such as flip or {random_crop: {padding: 4}}");
  Node name = node;
  name.kind = Kind::text;
  if (with_parameters) name.text = node.entries[0].key, name.mark = node.entries[0].mark;
  std::string word;
  read_field({field.key, &word, "", {.values = augment_step_names(), .later = kLaterSteps}}, name);
  AugmentStep step = augment_step(word);
  if (!with_parameters) return step;
  const Node& parameters = node.entries[0].value;
  if (parameters.kind == Kind::null) return step;
  if (parameters.kind != Kind::map) wrong_type(field, parameters, "parameters of " + word + " in braces");
  const std::string block = field.key + "." + word + ".";
  for (const document::Entry& entry : parameters.entries) {
    const std::vector<ConfigKey> keys = keys_of(step);
    const auto found = std::ranges::find(keys, entry.key, &ConfigKey::name);
    if (found == keys.end()) {
      std::vector<std::string> names;
      for (const ConfigKey& key : keys) names.push_back(key.name);
      fail_at(entry.mark, "unknown key ", quoted(block + entry.key), "; ", word, " takes ",
              names.empty() ? "none" : join_choices(names));
    }
    read_field(as_field(*found, block), entry.value);
  }
  if (const auto fault = fault_of(step)) {
    const auto named = std::ranges::find(parameters.entries, fault->key, &document::Entry::key);
    fail_at(named == parameters.entries.end() ? parameters.mark : named->value.mark, block, fault->key, " ",
            fault->text);
  }
  return step;
}

std::string step_text(AugmentStep step) {
  std::string text;
  for (const ConfigKey& key : keys_of(step))
    text += (text.empty() ? "" : ", ") + key.name + ": " + field_text(as_field(key, ""));
  return "{" + std::string(name_of(step)) + ": {" + text + "}}";
}

/// {pattern: "*.bias", weight_decay: 0}
optim::ParameterGroup read_group(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::map)
    wrong_type(field, node, "a list of groups such as {pattern: \"*.bias\", weight_decay: 0}");
  optim::ParameterGroup group;
  bool chooses = false;
  for (const document::Entry& entry : node.entries) {
    const std::vector<ConfigKey> keys = optim::keys_of(group);
    const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == entry.key; });
    if (found == keys.end()) {
      std::vector<std::string> names;
      for (const ConfigKey& key : keys) names.push_back(key.name);
      fail_at(entry.mark, "unknown key ", quoted(field.key + "." + entry.key), "; a group takes ", join_choices(names));
    }
    chooses = chooses || entry.key == "pattern" || entry.key == "dimensions";
    read_field(as_field(*found, field.key + "."), entry.value);
  }
  if (!chooses) fail_at(node.mark, field.key, ": a group needs a pattern or dimensions");
  return group;
}

std::string group_text(optim::ParameterGroup group) {
  std::string text;
  for (const ConfigKey& key : optim::keys_of(group))
    if (const ConfigField field = as_field(key, ""); field_text(field) != "null")
      text += (text.empty() ? "" : ", ") + field.key + ": " + field_text(field);
  return "{" + text + "}";
}

/// The keys of a part of the program, as the fields of a block.
void add_keys(std::vector<ConfigField>& fields, const std::string& block, const std::vector<ConfigKey>& keys) {
  for (const ConfigKey& key : keys) fields.push_back(as_field(key, block + "."));
}

std::vector<ConfigField> model_fields(Model& model) {
  std::vector<ConfigField> fields = {{"model.name",
                                      &model.name,
                                      "cnn (the tutorial's network) | cnn_plain (the same, a layer an operation) | "
                                      "cnn_moe (with mixtures of experts) | "
                                      "resnet18 to resnet152 | vit_tiny | vit | cct | linear",
                                      {.values = model_names()}}};
  add_keys(fields, "model", model.keys());
  return fields;
}

std::vector<ConfigField> update_fields(Config& c) {
  const std::vector<std::string> optimizers = optim::types<optim::Optimizer>();
  const std::vector<std::string> schedules = optim::types<optim::LrSchedule>();
  std::vector<ConfigField> fields = {{"optimizer.type",
                                      &c.optimizer,
                                      join_choices(optimizers),
                                      {.values = optimizers, .any_case = true, .later = optim::kLaterOptimizers}}};
  if (c.optimizer) add_keys(fields, "optimizer.params", optim::keys_of(*c.optimizer));
  fields.push_back({"optimizer.groups", &c.optimizer_groups,
                    "parameters by pattern of name or dimensions, or first rows of them, with lr_scale and "
                    "weight_decay of their own"});
  fields.push_back({"scheduler.type",
                    &c.scheduler,
                    join_choices(schedules) + "; an empty block is constant",
                    {.values = schedules, .later = optim::kLaterSchedules}});
  add_keys(fields, "scheduler.params", optim::keys_of(c.scheduler));
  return fields;
}

template <class Numbers>
std::string numbers_text(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) {
    if (!text.empty()) text += ", ";
    if constexpr (std::is_integral_v<decltype(number)>)
      text += std::to_string(number);
    else
      text += flow(number);
  }
  return "[" + text + "]";
}

}  // namespace

std::vector<ConfigField> config_fields(Config& c) {
  const ConfigRule positive{.min = 1}, natural{.min = 0}, not_negative{.min = 0}, batch{.max = kLargestBatch};
  const ConfigRule interval{.min = 0, .resume_may_change = true}, fraction{.min = 0, .max = 1, .below_max = true};
  const ConfigRule patience{.min = 0, .max = 1e6, .above_min = true, .resume_may_change = true};
  const ConfigRule bucket{.min = 1, .resume_may_change = true};
  const std::vector<std::string> datasets = dataset_choices();
  const ConfigRule images{.min = 1, .max = kLargestBatch};
  auto& zero = c.zero_optimization;
  Elasticity& elastic = c.elasticity.keys;
  auto& profiler = c.flops_profiler;
  auto& logger = c.comms_logger;
  std::vector<ConfigField> fields = {
      {"seed", &c.seed, "of every random number", natural},
      {"device",
       &c.device,
       "auto (a GPU, where there is one) | cpu | cuda | cuda:N",
       {.values = {"auto", "cpu", "cuda"}, .numbered = "cuda", .resume_may_change = true}},
      {"output", &c.output, "the run's folder", {.resume_may_change = true}},
      {"data.dataset",
       &c.data.dataset,
       "of " + join_choices(datasets) +
           "; auto: CIFAR-10 or train/ and val/ where they lie in data.path, else the synthetic set",
       {.values = datasets}},
      {"data.path", &c.data.path, "the folder in which the data set lies", {.resume_may_change = true}},
      {"data.train",
       &c.data.train,
       "the folder of the pictures to train on; empty: train/ in data.path",
       {.may_be_empty = true, .resume_may_change = true}},
      {"data.val",
       &c.data.val,
       "the folder of the pictures to test on; empty: val/ in data.path",
       {.may_be_empty = true, .resume_may_change = true}},
      {"data.validation", &c.data.validation, "images held out of the training set", natural},
      {"data.shuffle", &c.data.shuffle, "a fresh permutation every epoch; false: file order", {}},
      {"data.normalize.mean", &c.data.mean, "of pixels scaled to 0..1, per channel", {}},
      {"data.normalize.std", &c.data.std, "likewise", {.min = 0, .above_min = true}},
      {"data.augment",
       &c.data.augment,
       "steps in order: random_crop {padding}, flip {p}, alternating_flip, random_resized_crop {scale, ratio}, cutout "
       "{length}, color_jitter {brightness, contrast, saturation, hue}, rand_augment {num_ops, magnitude, "
       "num_magnitude_bins}, mixup {alpha, p}, cutmix {alpha, p}; normalize {mean, std} at last is data.normalize",
       {}},
      {"data.size", &c.data.size, "of a sample made from a picture: width and height", {.min = 1, .max = 1024}},
      {"data.resize",
       &c.data.resize,
       "shorter side of a picture from whose middle a sample is cut",
       {.min = 1, .max = 2000}},
      {"data.exact", &c.data.exact, "random_resized_crop decodes in full resolution; false: in what suffices", {}},
      {"data.max_pixels",
       &c.data.max_pixels,
       "larger pictures count as damaged, and are not decoded",
       {.min = 1, .max = 1e9}},
      {"data.on_corrupt", &c.data.on_corrupt, "what a damaged image does", {.resume_may_change = true}},
      {"data.limit", &c.data.limit, "images of the training set, the first so many, for trials; 0: all", natural},
      {"data.workers",
       &c.data.workers,
       "threads of a rank that read and decode images; 0: by cores; none where images need no decoding",
       {.min = 0, .max = 1024, .resume_may_change = true}},
      {"train.epochs", &c.train.epochs, "passes over the training set", {.min = 0, .resume_may_change = true}},
      {"train.max_steps", &c.train.max_steps, "optimizer steps; -1: no limit", {.min = -1, .resume_may_change = true}},
      {"train.log_interval",
       &c.train.log_interval,
       "micro-batches of all ranks between two printed losses; optimizer steps where log_format is ema_loss",
       {.min = 1, .resume_may_change = true}},
      {"train.log_format",
       &c.train.log_format,
       "tutorial | example | ema_loss: how losses and accuracies are printed",
       {.resume_may_change = true}},
      {"train.sample_grid",
       &c.train.sample_grid,
       "sample_grid.png in the run's folder: the images of the first batch",
       {.resume_may_change = true}},
      {"train.save_interval", &c.train.save_interval, "optimizer steps; 0: every epoch", interval},
      {"train.eval_interval", &c.train.eval_interval, "optimizer steps; 0: every epoch", interval},
      {"train.eval_batch_size",
       &c.train.eval_batch_size,
       "images; part of the result",
       {.min = 1, .max = kLargestBatch}},
      {"train.eval_views", &c.train.eval_views, "copies of an image, of whose logits an evaluation takes the mean"},
      {"train.best.split", &c.train.best.split, "what best.bin follows"},
      {"train.best.metric", &c.train.best.metric, "accuracy | loss"},
      {"train.early_stopping.patience", &c.train.early_stopping.patience, "evaluations without improvement; 0: off",
       natural},
      {"train.early_stopping.metric", &c.train.early_stopping.metric, "accuracy | loss"},
      {"train.ema.decay", &c.train.ema.decay,
       "of an exponential moving average of the weights: what a step leaves of it; 0: none", fraction},
      {"train.ema.start", &c.train.ema.start, "applied optimizer steps up to which the average is the weights",
       natural},
      {"train.ema.evaluate", &c.train.ema.evaluate, "evaluations, best.bin and early stopping go by the average", {}},
      {"train.recompute",
       &c.train.recompute,
       "none | blocks: each block computes again what its backward pass needs",
       {.resume_may_change = true}},
      {"train.label_smoothing", &c.train.label_smoothing, "share of the target spread over all classes", fraction},
      {"train.max_bad_steps", &c.train.max_bad_steps, "non-finite steps in a row that end the run", positive},
      {"checkpoint.keep_last", &c.checkpoint.keep_last, "checkpoints kept", {.min = 1, .resume_may_change = true}},
      {"checkpoint.on_failure", &c.checkpoint.on_failure, "of a save while training", {.resume_may_change = true}},
      {"checkpoint.asynchronous",
       &c.checkpoint.asynchronous,
       "saving runs beside training; false: training waits",
       {.resume_may_change = true}},
      {"communication.backend", &c.communication.backend, "auto | threads | mpi | nccl", {.resume_may_change = true}},
      {"communication.reproducible",
       &c.communication.reproducible,
       "the same bits on any number of ranks",
       {.resume_may_change = true}},
      {"communication.heartbeat_s", &c.communication.supervision.heartbeat_s,
       "a rank silent for so many seconds is lost", patience},
      {"communication.timeout_s", &c.communication.supervision.timeout_s, "likewise a rank alive but without progress",
       patience},
      {"communication.check_interval", &c.communication.check_interval,
       "optimizer steps between comparing the replicas' weight hashes; 0: never", interval},
      {"communication.share_device",
       &c.communication.share_device,
       "several ranks may use one GPU",
       {.resume_may_change = true}},
      {"cpu.threads", &c.cpu.threads, "of one rank; part of the result", {.min = 1, .only = "1"}},
      {"cpu.winograd", &c.cpu.winograd, "3x3 convolutions by Winograd's algorithm, where it is the fastest"},
      {"cpu.autotune",
       &c.cpu.autotune,
       "time the ways of convolutions instead of taking the table's; a resumed run keeps its own",
       {.resume_may_change = true}},
      {"cuda.autotune",
       &c.cuda.autotune,
       "time the libraries' plans; a resumed run keeps its own",
       {.resume_may_change = true}},
      {"cuda.tf32", &c.cuda.tf32, "f32 products with TF32's 10-bit mantissas"},
      {"cuda.record", &c.cuda.record, "steps as CUDA graphs", {.resume_may_change = true}},
      {"cuda.path",
       &c.cuda.path,
       "where CUDA's libraries are looked for first",
       {.may_be_empty = true, .resume_may_change = true}},
      {"compat", &c.compat,
       "surprises of the reference: seed (all) or a list of first_step, cosine_rises, scaler_b, scale_2_32, "
       "scale_first, adam_t, fixed_order, console"},
      {"train_batch_size", &c.batch.train, "images of one optimizer step", batch},
      {"train_micro_batch_size_per_gpu", &c.batch.micro, "images of one pass on one rank", batch},
      {"gradient_accumulation_steps", &c.batch.accumulation, "passes of one optimizer step", batch},
      {"elasticity.enabled", &c.elasticity.enabled, "choose the batch so that many numbers of ranks fit it", {}},
      {"elasticity.max_train_batch_size", &elastic.max_train_batch_size, "images of one optimizer step, at the most",
       images},
      {"elasticity.micro_batch_sizes",
       &elastic.micro_batch_sizes,
       "the micro-batches to choose from",
       {.min = 1,
        .max = kLargestBatch,
        .refusal = "Elasticity expected micro_batch_sizes to only contain positive integers, instead contains: "}},
      {"elasticity.min_gpus", &elastic.min_gpus, "the fewest ranks", images},
      {"elasticity.max_gpus", &elastic.max_gpus, "the most ranks", images},
      {"elasticity.prefer_larger_batch", &elastic.prefer_larger_batch, "of batches that as many ranks fit", {}},
      {"elasticity.ignore_non_elastic_batch_info",
       &c.elasticity.ignore_non_elastic_batch_info,
       "batch keys that are given too are ignored; false: an error",
       {}},
      {"elasticity.version", &elastic.version, "0.1: single ranks come and go; 0.2: whole nodes", {.min = 0.1}},
      {"elasticity.num_gpus_per_node", &elastic.num_gpus_per_node, "ranks of a node, of version 0.2", images},
      {"gradient_clipping", &c.gradient_clipping, "largest global L2 norm; 0: off", not_negative},
      {"prescale_gradients", &c.prescale_gradients, "divide gradients before they are summed, not after", {}},
      {"gradient_predivide_factor",
       &c.gradient_predivide_factor,
       "unless they are prescaled: divide by this before the sum, and by the rest after it",
       {.min = 0, .max = 1e9, .above_min = true}},
      {"communication_data_type",
       &c.communication_data_type,
       "fp32 | fp16 | bf16: what gradients travel in between hosts, where communication.reproducible is false",
       {.any_case = true,
        .refusal = "Invalid communication_data_type. Supported data types: ['fp16', 'bf16', 'fp32']. Got: ",
        .resume_may_change = true}},
      {"bf16.enabled",
       &c.bf16.enabled,
       "compute in bf16; master weights, gradients and the update in f32; auto: where the machine computes in it",
       {.open = "auto"}},
      {"fp16.enabled", &c.fp16.enabled, "compute in fp16 with a loss scale", {}},
      {"fp16.loss_scale", &c.fp16.loss_scale, "0: dynamic", not_negative},
      {"fp16.initial_scale_power", &c.fp16.initial_scale_power, "begin at 2^this", {.min = 0, .max = 126}},
      {"fp16.loss_scale_window", &c.fp16.loss_scale_window, "steps without an overflow that double the scale",
       positive},
      {"fp16.hysteresis", &c.fp16.hysteresis, "overflows that halve it", positive},
      {"fp16.consecutive_hysteresis", &c.fp16.consecutive_hysteresis, "only overflows in a row count", {}},
      {"fp16.min_loss_scale", &c.fp16.min_loss_scale, "an overflow here ends the run", {.min = 0, .above_min = true}},
      {"zero_optimization.stage",
       &zero.stage,
       "what ranks share out: nothing (0), optimizer state (1), gradients too (2), parameters too (3)",
       {.min = 0, .max = 3, .resume_may_change = true}},
      {"zero_optimization.reduce_bucket_size", &zero.reduce_bucket_size,
       "elements of one gradient exchange; absent: the program's choice", bucket},
      {"zero_optimization.allgather_bucket_size", &zero.allgather_bucket_size,
       "elements of one parameter exchange; absent: the program's choice", bucket},
      {"zero_optimization.overlap_comm",
       &zero.overlap_comm,
       "exchange while computing; absent: as the transport can",
       {.resume_may_change = true}},
      {"zero_optimization.stage3_param_persistence_threshold", &zero.stage3_param_persistence_threshold,
       "vectors of at most so many elements stay whole on every rank", interval},
      {"zero_optimization.offload_optimizer.device",
       &zero.offload_optimizer_device,
       "none | cpu: where the optimizer's state lives",
       {.later = {"nvme"}, .resume_may_change = true}},
      {"steps_per_print",
       &c.steps_per_print,
       "optimizer steps between two step records, and the lines of progress that go with them",
       {.min = 1, .resume_may_change = true}},
      {"tensorboard.enabled", &c.tensorboard.enabled, "event files for TensorBoard", {.resume_may_change = true}},
      {"tensorboard.output_path",
       &c.tensorboard.output_path,
       "where they lie; empty: in tb/ of the run's folder",
       {.may_be_empty = true, .resume_may_change = true}},
      {"tensorboard.job_name",
       &c.tensorboard.job_name,
       "a folder in it; empty: none",
       {.may_be_empty = true, .resume_may_change = true}},
      {"csv_monitor.enabled", &c.csv_monitor.enabled, "CSV files as DeepSpeed's", {.resume_may_change = true}},
      {"csv_monitor.output_path",
       &c.csv_monitor.output_path,
       "where they lie; empty: in csv/ of the run's folder",
       {.may_be_empty = true, .resume_may_change = true}},
      {"csv_monitor.job_name",
       &c.csv_monitor.job_name,
       "a folder in it; empty: none",
       {.may_be_empty = true, .resume_may_change = true}},
      {"wall_clock_breakdown",
       &c.wall_clock_breakdown,
       "what the time of a step goes to, every steps_per_print steps",
       {.resume_may_change = true}},
      {"dump_state", &c.dump_state, "tells every key in force, when training begins", {.resume_may_change = true}},
      {"memory_breakdown",
       &c.memory_breakdown,
       "tells what memory is planned and used, by kind",
       {.resume_may_change = true}},
      {"flops_profiler.enabled",
       &profiler.enabled,
       "a table of one step's operations by module",
       {.resume_may_change = true}},
      {"flops_profiler.profile_step",
       &profiler.profile_step,
       "steps before the one that is profiled",
       {.min = 0, .resume_may_change = true}},
      {"flops_profiler.module_depth",
       &profiler.module_depth,
       "parts of modules' names that are told; 0: the model as one, -1: all",
       {.min = -1, .resume_may_change = true}},
      {"flops_profiler.top_modules",
       &profiler.top_modules,
       "modules that are told of each depth",
       {.min = 1, .resume_may_change = true}},
      {"flops_profiler.detailed",
       &profiler.detailed,
       "also every module and every kind of operation",
       {.resume_may_change = true}},
      {"flops_profiler.output_file",
       &profiler.output_file,
       "where the table goes; empty: the console",
       {.may_be_empty = true, .resume_may_change = true}},
      {"comms_logger.enabled",
       &logger.enabled,
       "a table of collectives, their sizes, times and bandwidths, at the end",
       {.resume_may_change = true}},
      {"comms_logger.verbose", &logger.verbose, "also a line for each", {.resume_may_change = true}},
      {"comms_logger.prof_all", &logger.prof_all, "all of them; false: those of prof_ops", {.resume_may_change = true}},
      {"comms_logger.debug", &logger.debug, "with what each exchanges", {.resume_may_change = true}},
      {"comms_logger.prof_ops",
       &logger.prof_ops,
       "all_reduce, reduce_scatter, all_gather",
       {.resume_may_change = true}},
  };
  const auto insert = [&](std::vector<ConfigField> some, const char* before) {
    const auto at = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.key == before; });
    fields.insert(at, std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  };
  insert(model_fields(c.model), "data.dataset");
  insert(update_fields(c), "gradient_clipping");
  return fields;
}

std::vector<Config> configs_of_all_types() {
  std::vector<Config> all;
  for (const optim::Optimizer& optimizer : optim::all_of<optim::Optimizer>()) all.emplace_back().optimizer = optimizer;
  for (const optim::LrSchedule& scheduler : optim::all_of<optim::LrSchedule>())
    all.emplace_back().scheduler = scheduler;
  for (const std::string& name : model_names()) all.emplace_back().model.name = name;
  return all;
}

std::vector<ConfigField> effective_fields(Config& config) {
  std::vector<ConfigField> fields = config_fields(config);
  const auto counts = [&](const ConfigField& field) {
    const bool of_batch = config.elasticity.enabled && std::ranges::find(kBatchKeys, field.key) != std::end(kBatchKeys);
    if (const auto* number = std::get_if<std::optional<int64_t>*>(&field.target))
      return (*number)->has_value() && !of_batch;
    if (const auto* number = std::get_if<std::optional<double>*>(&field.target)) return (*number)->has_value();
    if (const auto* choice = std::get_if<std::optional<bool>*>(&field.target))
      return (*choice)->has_value() || !field.rule.open.empty();
    if (field.key.rfind("fp16.", 0) == 0) return config.fp16.enabled || field.key == "fp16.enabled";
    if (field.key.rfind("elasticity.", 0) == 0) return config.elasticity.enabled || field.key == "elasticity.enabled";
    if (field.key == "gradient_predivide_factor") return !config.prescale_gradients;
    if (const auto* compat = std::get_if<Compat*>(&field.target)) return !(*compat)->empty();
    if (field.key.rfind("tensorboard.", 0) == 0)
      return config.tensorboard.enabled || field.key == "tensorboard.enabled";
    if (field.key.rfind("csv_monitor.", 0) == 0)
      return config.csv_monitor.enabled || field.key == "csv_monitor.enabled";
    if (field.key.rfind("flops_profiler.", 0) == 0)
      return config.flops_profiler.enabled || field.key == "flops_profiler.enabled";
    if (field.key.rfind("comms_logger.", 0) == 0)
      return config.comms_logger.enabled || field.key == "comms_logger.enabled";
    if (field.key.rfind("train.ema.", 0) == 0) return config.train.ema.decay > 0 || field.key == "train.ema.decay";
    if (const auto* groups = std::get_if<std::vector<optim::ParameterGroup>*>(&field.target))
      return !(*groups)->empty();
    if (field.key == "optimizer.type") return config.optimizer.has_value();
    if (field.key == "scheduler.type") return !optim::type_of(config.scheduler).empty();
    return true;
  };
  std::erase_if(fields, [&](const ConfigField& field) { return !counts(field); });
  return fields;
}

std::string field_text(const ConfigField& field) {
  return std::visit(
      Overload{[](const bool* v) { return std::string(*v ? "true" : "false"); },
               [](const int64_t* v) { return std::to_string(*v); }, [](const double* v) { return flow(*v); },
               [](const std::string* v) { return flow(*v); }, [](const Choice& v) { return flow(v.word()); },
               [](const std::optional<int64_t>* v) { return *v ? std::to_string(**v) : std::string("null"); },
               [&](const std::optional<bool>* v) {
                 const std::string& open = field.rule.open;
                 return !*v ? (open.empty() ? std::string("null") : open) : std::string(**v ? "true" : "false");
               },
               [](const std::array<double, 2>* v) { return numbers_text(*v); },
               [](const std::optional<double>* v) { return *v ? flow(**v) : std::string("null"); },
               [](const std::vector<double>* v) { return numbers_text(*v); },
               [](const std::vector<int64_t>* v) { return numbers_text(*v); },
               [](const std::vector<std::string>* v) { return words_text(*v); },
               [](const Compat* v) { return compat_text(*v); },
               [](const std::vector<AugmentStep>* v) {
                 std::string text;
                 for (const AugmentStep& step : *v) text += (text.empty() ? "" : ", ") + step_text(step);
                 return "[" + text + "]";
               },
               [](const std::vector<optim::ParameterGroup>* v) {
                 std::string text;
                 for (const optim::ParameterGroup& group : *v) text += (text.empty() ? "" : ", ") + group_text(group);
                 return "[" + text + "]";
               },
               [](const std::optional<optim::Optimizer>* v) { return std::string(*v ? optim::type_of(**v) : ""); },
               [](const optim::LrSchedule* v) { return std::string(optim::type_of(*v)); }},
      field.target);
}

void read_field(const ConfigField& field, const Node& node) {
  std::visit(
      Overload{
          [&](bool* v) { *v = checked_boolean(field, node); }, [&](int64_t* v) { *v = checked_integer(field, node); },
          [&](double* v) { *v = checked_number(field, node); }, [&](std::string* v) { *v = checked_text(field, node); },
          [&](const Choice& v) {
            ConfigField worded = field;
            worded.rule.values = v.words();
            v.choose(checked_text(worded, node));
          },
          [&](std::optional<int64_t>* v) { *v = checked_integer(field, node); },
          [&](std::optional<bool>* v) {  // DeepSpeed's null leaves the choice open
            const std::string& open = field.rule.open;
            const bool left = open.empty() ? node.kind == Kind::null : node.kind == Kind::text && node.text == open;
            v->reset();
            if (!left) *v = checked_boolean(field, node);
          },
          [&](std::array<double, 2>* v) { *v = checked_numbers<2>(field, node); },
          [&](std::vector<double>* v) { *v = checked_list(field, node); },
          [&](std::vector<int64_t>* v) { *v = checked_integers(field, node); },
          [&](std::vector<std::string>* v) { *v = checked_words(field, node); },
          [&](Compat* v) { *v = checked_compat(field, node); },
          [&](std::vector<AugmentStep>* v) {
            if (node.kind != Kind::list) wrong_type(field, node, "a list of steps");
            constexpr size_t kMost = 32;
            if (node.items.size() > kMost)
              fail_at(node.mark, field.key, " takes at most ", kMost, " steps, found ", node.items.size());
            v->clear();
            for (const Node& item : node.items) v->push_back(read_step(field, item));
          },
          [&](std::optional<double>* v) { *v = checked_number(field, node); },
          [&](std::vector<optim::ParameterGroup>* v) {
            if (node.kind != Kind::list) wrong_type(field, node, "a list of groups");
            v->clear();
            for (const Node& item : node.items) v->push_back(read_group(field, item));
          },
          [&](std::optional<optim::Optimizer>* v) { *v = optim::of_type<optim::Optimizer>(checked_text(field, node)); },
          [&](optim::LrSchedule* v) { *v = optim::of_type<optim::LrSchedule>(checked_text(field, node)); }},
      field.target);
  if (const std::string& only = field.rule.only; !only.empty() && field_text(field) != only)
    refuse(node, field.key, field_text(field), only);
}

bool is_config_block(const std::string& key, const std::vector<ConfigField>& fields) {
  const auto inside = [prefix = key + "."](const auto& known) { return known.key.rfind(prefix, 0) == 0; };
  const auto& foreign = foreign_keys();
  return std::any_of(fields.begin(), fields.end(), inside) || std::any_of(foreign.begin(), foreign.end(), inside);
}

std::string suggest_key(const std::string& key, const std::vector<ConfigField>& fields) {
  const auto split = [](const std::string& path) {
    const size_t dot = path.rfind('.');
    return dot == std::string::npos ? std::pair{std::string(), path}
                                    : std::pair{path.substr(0, dot), path.substr(dot + 1)};
  };
  const auto [block, name] = split(key);
  std::string best;
  // Twice the distance, so that the very same name in a block of quite another name comes after every near one.
  size_t best_distance = 2 * tolerance(name) + 2;
  const auto consider = [&](const std::string& candidate) {
    const auto [candidate_block, candidate_name] = split(candidate);
    if (candidate_name == "*") return;
    const size_t names = edit_distance(lower(name), lower(candidate_name));
    const size_t blocks = edit_distance(lower(block), lower(candidate_block));
    if (names > tolerance(name) || (blocks > tolerance(block) && names > 0)) return;
    const size_t distance = blocks <= tolerance(block) ? 2 * (names + blocks) : 2 * tolerance(name) + 1;
    if (distance < best_distance) best = candidate, best_distance = distance;
  };
  const auto consider_with_blocks = [&](std::string candidate) {
    for (;; candidate = split(candidate).first) {
      consider(candidate);
      if (candidate.find('.') == std::string::npos) return;
    }
  };
  for (const ConfigField& field : fields) consider_with_blocks(field.key);
  for (const ForeignKey& foreign : foreign_keys()) consider_with_blocks(foreign.key);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::string join_choices(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

bool operator==(const Config& a, const Config& b) {
  // The table binds pointers to members, so it is made from copies.
  Config left = a, right = b;
  const std::vector<ConfigField> x = effective_fields(left), y = effective_fields(right);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const ConfigField& i, const ConfigField& j) {
    return i.key == j.key && field_text(i) == field_text(j);
  });
}

}  // namespace ct
