#include "train/config/merge.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "train/config/batch.h"
#include "train/config/foreign.h"
#include "train/config/suggest.h"

namespace ct {
namespace {

using document::Entry;
using document::fail_at;
using document::Kind;
using document::Mark;
using document::Node;
using document::quoted;

constexpr const char* kReplacedWhole[] = {"optimizer", "scheduler"};

const KeyAlias* alias_of(const std::string& key) {
  const auto found = std::ranges::find(key_aliases(), key, &KeyAlias::theirs);
  return found == key_aliases().end() ? nullptr : &*found;
}

/// What a value of a key said of old; nullptr: it says what it says.
const OldForm* old_form(const std::string& key, const Node& value) {
  const auto found = std::ranges::find_if(old_forms(), [&](const OldForm& old) {
    return key == old.theirs && value.kind == Kind::boolean && value.boolean == old.when;
  });
  return found == old_forms().end() ? nullptr : &*found;
}

std::string last_part(std::string_view key) { return std::string(key.substr(key.rfind('.') + 1)); }

/// Its value; nullptr: there is none.
const Node* entry_of(const Node& map, std::string_view name) {
  const auto found = std::ranges::find(map.entries, name, &Entry::key);
  return found == map.entries.end() ? nullptr : &found->value;
}

bool has_entry(const Node& map, std::string_view name) { return entry_of(map, name) != nullptr; }

constexpr std::string_view kAuto = "auto";  // as if it were absent
bool is_auto(const Node& node) { return node.kind == Kind::text && node.text == kAuto; }

/// A key and its other name in one block would each win or lose by chance.
void refuse_both(const Node& map, const std::string& block, const Entry& entry) {
  const std::string key = block + entry.key;
  if (const KeyAlias* alias = alias_of(key); alias && has_entry(map, last_part(alias->ours))) {
    const std::string ours = last_part(alias->ours);
    if (alias->given_up)
      fail_at(entry.mark, "Cannot provide deprecated parameter '", entry.key, "' and replacing parameter '", ours,
              "' together; remove the first");
    fail_at(entry.mark, entry.key, " is another name of ", ours, ", which is given too; remove one");
  }
  if (const OldForm* old = old_form(key, entry.value); old && has_entry(map, old->instead))
    fail_at(entry.mark, "Cannot provide deprecated parameter '", entry.key, "' and replacing parameter '", old->instead,
            "' together; remove the first");
}

bool is_text(const ConfigField& field) {
  return std::holds_alternative<std::string*>(field.target) || std::holds_alternative<Choice>(field.target);
}

/// A step of data.augment that is data.normalize, as lists of torchvision's end in one.
bool is_normalize(const Node& step) {
  return step.text == "normalize" ||
         (step.kind == Kind::map && step.entries.size() == 1 && step.entries[0].key == "normalize");
}

/// data.augment may end in {normalize: {mean: ..., std: ...}}: that is data.normalize.
std::optional<Entry> take_normalize(Node& steps) {
  std::optional<Entry> taken;
  for (const Node& step : steps.items) {
    if (taken)
      fail_at(taken->mark, "data.augment normalize comes last: the other steps change the pixels that it normalises");
    if (!is_normalize(step)) continue;
    if (step.kind != Kind::map || !has_entry(step.entries[0].value, "mean") || !has_entry(step.entries[0].value, "std"))
      fail_at(step.mark, "data.augment normalize needs its numbers: {normalize: {mean: [0.5], std: [0.5]}}");
    taken = step.entries[0];
  }
  if (taken) steps.items.pop_back();
  return taken;
}

/// A schedule's key that stands for the optimizer's rate.
bool is_rate_of_schedule(const std::string& key) {
  return std::ranges::any_of(optim::all_of<optim::LrSchedule>(), [&](const optim::LrSchedule& schedule) {
    const std::string_view rate = optim::overrides_lr(schedule);
    return !rate.empty() && key == str("scheduler.params.", rate);
  });
}

/// One source says it in one of the two ways.
void refuse_second_normalize(const Node& map, const std::string& block, const Entry& entry) {
  if (block != "data." || entry.key != "normalize" || entry.value.entries.empty()) return;
  for (const Entry& other : map.entries)
    if (other.key == "augment" && !other.value.items.empty() && is_normalize(other.value.items.back()))
      fail_at(entry.mark, "data.normalize is given by the last step of data.augment too (", other.value.mark.text(),
              "); remove one");
}

/// A word that says no more than an earlier source: "auto", or a switch's own that leaves it open.
bool gives_way(const ConfigField& field, const Node& node) {
  const bool open = !field.rule.open.empty() && node.kind == Kind::text && node.text == field.rule.open;
  return open || is_left_open(field, node);
}

}  // namespace

bool is_note(const std::string& name) { return name.starts_with("_") || name.starts_with("x-"); }

bool is_parameter(const std::string& key) {
  return key.starts_with("optimizer.params.") || key.starts_with("scheduler.params.");
}

bool is_type(const ConfigField& field) {
  return std::holds_alternative<std::optional<optim::Optimizer>*>(field.target) ||
         std::holds_alternative<optim::LrSchedule*>(field.target) || field.key == "model.name";
}

bool follows(const ConfigField& field) {
  return std::holds_alternative<std::optional<int64_t>*>(field.target) ||
         std::holds_alternative<std::optional<StepCount>*>(field.target) ||
         std::holds_alternative<std::optional<bool>*>(field.target);
}

bool is_left_open(const ConfigField& field, const Node& node) {
  constexpr const char* kBlocks[] = {"optimizer.params.", "scheduler.params.", "zero_optimization.", "fp16.",
                                     "tensorboard.",      "csv_monitor.",      "flops_profiler.",    "comms_logger."};
  const bool in_block = std::ranges::any_of(kBlocks, [&](const char* block) { return field.key.starts_with(block); });
  const bool top = field.key.find('.') == std::string::npos && field.key != "seed" &&
                   !std::holds_alternative<bool*>(field.target) && !std::holds_alternative<Compat*>(field.target) &&
                   !is_text(field);
  constexpr const char* kMayBeNull[] = {"communication_data_type", "flops_profiler.output_file", "steps_per_print"};
  const bool open = node.kind == Kind::null && std::ranges::find(kMayBeNull, field.key) != std::end(kMayBeNull);
  return open || ((in_block || top) && !is_type(field) && is_auto(node));
}

Merge::Merge(Complain complain) : complain_(std::move(complain)), bound_(configs_of_all_types()) {
  std::set<std::string> keys;
  for (Config& config : bound_)
    for (ConfigField& field : config_fields(config))
      if (keys.insert(field.key).second) fields_.push_back(std::move(field));
}

const Node* Merge::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Merge::Written Merge::written_as(const std::string& key) const {
  for (const auto& [ours, theirs] : other_names_) {
    if (key == ours) return theirs;
    if (key.starts_with(ours + ".")) return {theirs.key + key.substr(ours.size()), ""};
  }
  return {};
}

void Merge::add_file(const Node& root) {
  for (const Node& layer : in_own_words(root)) add_layer(layer);
}

void Merge::give_way_to(const Node& root) {
  if (has_entry(root, "optimizer")) forget("scheduler");
  for (const char* own : {"data.validation", "train.best.split"}) values_.erase(own);  // such files hold nothing out
  const auto says = [&](std::string_view key) {
    const Node* value = entry_of(root, key);
    return value && !is_auto(*value);
  };
  const Node* elastic = entry_of(root, "elasticity");
  const Node* enabled = elastic ? entry_of(*elastic, "enabled") : nullptr;
  if ((enabled && enabled->boolean) || std::ranges::any_of(kBatchKeys, says))
    for (const std::string_view key : kBatchKeys) values_.erase(std::string(key));
}

void Merge::add_layer(const Node& root) {
  const std::map<std::string, Node> before = values_;
  for (const Entry& entry : root.entries)
    for (const char* block : kReplacedWhole)
      if (entry.key == block) forget(block);
  add_map(root, "");
  keep_where_auto(before, !has_entry(root, "optimizer"));
}

/// Parameters that a replaced block leaves to "auto" stay as they were, if its type has. The rate of a schedule, which
/// then is the optimizer's, stays with that.
void Merge::keep_where_auto(const std::map<std::string, Node>& before, bool rate_stays) {
  for (const auto& [key, was] : before) {  // the optimizer's before the schedule's
    const auto now = values_.find(key);
    if (!is_parameter(key) || now == values_.end() || !is_auto(now->second) || is_auto(was)) continue;
    const std::string type = key.substr(0, key.find('.')) + ".type";
    const auto type_before = before.find(type);
    const Node* type_now = find(type);
    const bool same_type =
        type_now && type_before != before.end() && lower_case(type_now->text) == lower_case(type_before->second.text);
    if (!same_type || (is_rate_of_schedule(key) && !rate_stays)) continue;
    now->second = was;
    rate_stays = rate_stays || key == "optimizer.params.lr";
  }
}

void Merge::add_override(const ConfigOverride& word) {
  const auto origin = std::make_shared<document::Origin>(document::Origin{word.origin, /*positions=*/false});
  const Mark mark{origin, 0, 0};
  for (const char* block : kReplacedWhole) {
    if (word.key == block) forget(block);
    if (word.key == str(block, ".type")) forget(str(block, ".params"));
  }
  Node value = override_value(word, origin);
  value.mark = mark;
  // Where "auto" has a meaning of its own, asking for it by name is more than a file's silence.
  const auto field = std::ranges::find(fields_, word.key, &ConfigField::key);
  if (is_auto(value) && field != fields_.end() && (follows(*field) || field->rule.open == kAuto))
    values_.erase(word.key);
  add_path(word.key, "", mark, value);
}

void Merge::forget(const std::string& block) {
  std::erase_if(values_, [&](const auto& value) { return value.first.starts_with(block + "."); });
}

/// Text keys take the words after '=' as they stand, so that --set output=2024 needs no second pair of quotes.
Node Merge::override_value(const ConfigOverride& word, const std::shared_ptr<const document::Origin>& origin) const {
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

void Merge::add_path(const std::string& rest, const std::string& block, const Mark& mark, const Node& value) {
  const size_t dot = rest.find('.');
  const std::string name = rest.substr(0, dot);
  if (dot == std::string::npos) return add(name, block, mark, value);
  const std::string key = own_key(block, name, mark);
  if (is_note(name)) return;
  if (find_inert(key) && !is_config_block(key, fields_)) return add(name, block, mark, value);
  if (!is_config_block(key, fields_)) unknown(block + rest, mark);
  add_path(rest.substr(dot + 1), key + ".", mark, value);
}

void Merge::add_map(const Node& map, const std::string& block) {
  for (const Entry& entry : map.entries) {
    try {
      refuse_both(map, block, entry);
      refuse_second_normalize(map, block, entry);
      add(entry.key, block, entry.mark, entry.value);
    } catch (const Error& error) {
      if (!complain_) throw;
      complain_(block + entry.key, entry, error);
    }
  }
}

void Merge::add(const std::string& name, const std::string& block, const Mark& mark, const Node& value) {
  if (is_note(name)) return;
  const std::string key = own_key(block, name, mark);
  if (add_old_form(key, mark, value)) return;
  const bool dotted = name.find('.') != std::string::npos;
  const auto field = std::find_if(fields_.begin(), fields_.end(), [&](const auto& f) { return f.key == key; });
  const bool is_field = field != fields_.end();
  if (!dotted && !is_field && is_config_block(key, fields_)) {
    if (value.kind != Kind::map && value.kind != Kind::null)
      fail_at(value.mark, key, " is a block of keys, found ", quoted(document::flow(value)));
    return add_map(value, key + ".");
  }
  // Which parameters exist depends on the type, which a later source may still change.
  if (dotted || !(is_field || is_parameter(key) || find_inert(key))) unknown(key, mark);
  if (is_field && gives_way(*field, value) && values_.contains(key)) return;  // an earlier source has said it
  Node kept = value;
  if (key == "data.augment")
    if (const auto normalize = take_normalize(kept)) add("normalize", block, normalize->mark, normalize->value);
  if (kept.kind == Kind::null) kept.mark = mark;  // an empty value stands at its key
  values_[key] = std::move(kept);
}

bool Merge::add_old_form(const std::string& key, const Mark& mark, const Node& value) {
  const OldForm* old = old_form(key, value);
  if (old == nullptr) return false;
  const std::string ours(old->ours);
  remark(mark, last_part(key), std::string(old->instead));
  other_names_[ours] = {key, document::flow(value)};
  values_[ours] = document::plain_scalar(std::string(old->value), value.mark);
  return true;
}

void Merge::remark(const Mark& mark, const std::string& old, const std::string& instead) {
  remarks_.push_back(str(mark.text(), ": Config parameter ", old, " is deprecated use ", instead, " instead"));
}

/// The key's name here.
std::string Merge::own_key(const std::string& block, const std::string& name, const Mark& mark) {
  const KeyAlias* alias = alias_of(block + name);
  if (alias == nullptr) return block + name;
  const std::string ours(alias->ours);
  if (alias->given_up) remark(mark, name, last_part(ours));
  other_names_[ours] = {block + name, ""};
  return ours;
}

void Merge::unknown(const std::string& key, const Mark& mark) const {
  fail_at(mark, "unknown key ", quoted(key), suggest_key(key, fields_));
}

}  // namespace ct
