#include "deepspeed/import.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "train/config/document.h"
#include "train/config/foreign.h"
#include "train/config/merge.h"
#include "train/config/print.h"
#include "train/config/validate.h"

namespace ct {
namespace {

using document::Entry;
using document::Kind;
using document::Mark;
using document::Node;

/// The error's text without the place that it begins with.
std::string without_place(const Error& error, const Mark& mark) {
  const std::string text = error.what(), place = mark.text() + ": ";
  return text.starts_with(place) ? text.substr(place.size()) : text;
}

/// Which says the key itself, too, as the line does already.
std::string without_key(const std::string& text, const std::string& key) {
  return text.starts_with(key + ": ") ? text.substr(key.size() + 2) : text;
}

class Judge {
 public:
  explicit Judge(const std::filesystem::path& file)
      : merge_([this](const std::string& key, const Entry& entry, const Error& error) {
          const bool of_value = std::string_view(error.what()).starts_with(entry.value.mark.text() + ": ");
          const std::string why = without_place(error, of_value ? entry.value.mark : entry.mark);
          add(key, entry.value, entry.mark, Fate::refused, why);
        }) {
    const Node root = document::read_file(file);
    merge_.add_file(root);
    add_notes(root, "");
  }

  Import decide() {
    for (const bool types : {true, false})  // which decide what other keys there are
      for (const ConfigField& field : config_fields(config_))
        if (const Node* node = merge_.find(field.key); node && is_type(field) == types) judge(field, *node);
    for (const auto& [key, node] : merge_.values())
      if (!judged_.contains(key)) judge_other(key, node);
    if (config_.elasticity.enabled && config_.elasticity.ignore_non_elastic_batch_info)
      for (KeyFate& k : result_.keys)
        if (std::ranges::find(kBatchKeys, k.key) != std::end(kBatchKeys))
          k.fate = Fate::ignored, k.why = "elasticity chooses the batch";
    std::ranges::sort(result_.keys, {}, [](const KeyFate& k) { return std::tuple(k.line, k.column, k.key); });
    try {
      result_.warnings = merge_.remarks();
      settle_together(config_);
      check_together(config_, &result_.warnings);
      const bool given = config_.batch.train || config_.batch.micro || config_.batch.elastic;
      if (!given)
        result_.warnings.emplace_back(
            "no batch size is given: Either train_batch_size or train_micro_batch_size_per_gpu needs to be "
            "provided, here or in the file that this one overlays");
      if (given && fitting_ranks(config_.batch, 1).empty()) batch_for(config_.batch, 1);  // throws: it fits no ranks
    } catch (const Error& error) {
      result_.broken = error.what();
    }
    result_.yaml = to_yaml(config_, {.given_only = true});
    return std::move(result_);
  }

 private:
  void judge(const ConfigField& field, const Node& node) {
    judged_.insert(field.key);
    const std::string before = field_text(field);
    try {
      read_or_leave_open(config_, field, node);
      // A rate that is left open is the optimizer's, which is no default.
      if (is_left_open(field, node) && field_text(field) != before) config_.origins[field.key] = node.mark.text();
    } catch (const Error& error) {
      if (is_type(field)) refused_types_.push_back(field.key.substr(0, field.key.find('.')));
      return add(field.key, node, node.mark, Fate::refused, without_place(error, node.mark));
    }
    const bool narrow = field.key == "communication_data_type" && config_.communication_data_type != CommDataType::fp32;
    add(field.key, node, node.mark, Fate::honoured,
        is_left_open(field, node) ? "it follows from other keys, or is the default"
        : narrow                  ? "if communication.reproducible is false; otherwise sums stay f32"
                                  : "");
  }

  /// Is it beside an `enabled` that is refused?
  bool is_of_refused_block(const std::string& key) const {
    const std::string enabled = key.substr(0, key.rfind('.') + 1) + "enabled";
    const Node* const node = merge_.find(enabled);
    const InertKey* const inert = find_inert(enabled);
    return node && inert && !is_harmless(*inert, *node);
  }

  /// A key that is none of this configuration's.
  void judge_other(const std::string& key, const Node& node) {
    const std::string block = key.substr(0, key.find('.'));
    const InertKey* inert = find_inert(key);
    if (std::ranges::find(refused_types_, block) != refused_types_.end())
      add(key, node, node.mark, Fate::refused, "it belongs to a refused block");
    else if (inert && (is_of_refused_block(key) || !is_harmless(*inert, node)))
      add(key, node, node.mark, Fate::refused,
          is_harmless(*inert, node) ? "it belongs to a refused block" : refusal_of(*inert, key, node));
    else if (inert)
      add(key, node, node.mark, Fate::ignored, inert->why);
    else
      add(key, node, node.mark, Fate::refused, stray_key(config_, key));
  }

  void add(const std::string& key, const Node& node, const Mark& mark, Fate fate, std::string why) {
    const Merge::Written written = merge_.written_as(key);
    if (!written.key.empty() && fate == Fate::honoured)
      why += str(why.empty() ? "" : "; ", "as ", key, ": ", document::flow(node));
    result_.keys.push_back({.key = written.key.empty() ? key : written.key,
                            .value = written.value.empty() ? document::brief(node) : written.value,
                            .fate = fate,
                            .why = without_key(why, key),
                            .line = mark.line,
                            .column = mark.column});
  }

  void add_notes(const Node& map, const std::string& block) {
    for (const Entry& entry : map.entries)
      if (is_note(entry.key))
        add(block + entry.key, entry.value, entry.mark, Fate::ignored, "a comment");
      else if ((entry.value.kind == Kind::null || (entry.value.kind == Kind::map && entry.value.entries.empty())) &&
               is_config_block(block + entry.key, merge_.fields()))
        add(block + entry.key, entry.value, entry.mark, Fate::ignored, "it is empty");
      else
        add_notes(entry.value, block + entry.key + ".");
  }

  Import result_;
  Merge merge_;
  Config config_;
  std::set<std::string> judged_;
  std::vector<std::string> refused_types_;  // blocks whose type is
};

}  // namespace

bool Import::refused() const {
  return !broken.empty() || std::ranges::any_of(keys, [](const KeyFate& k) { return k.fate == Fate::refused; });
}

Import import_config(const std::filesystem::path& file) { return Judge(file).decide(); }

std::string to_text(const Import& found) {
  std::string text;
  for (const KeyFate& key : found.keys) {
    const std::string fate(word_of(key.fate));
    text += str(fate, std::string(10 - fate.size(), ' '), key.key, ": ", key.value, key.why.empty() ? "" : "  -- ",
                key.why, "\n");
  }
  if (!found.broken.empty()) text += "refused   " + found.broken + "\n";
  return text;
}

}  // namespace ct
