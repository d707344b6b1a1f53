#include "train/config/field.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "train/config/suggest.h"

namespace ct {
namespace {

using document::fail_at;
using document::flow;
using document::Kind;
using document::Node;
using document::quoted;

[[noreturn]] void refuse(const Node& node, const std::string& key, const std::string& value,
                         const std::string& instead) {
  fail_at(node.mark, key, " ", value, " is not supported by this version; use ", instead);
}

[[noreturn]] void wrong_type(const ConfigField& field, const Node& node, const std::string& expected,
                             const std::string& hint = "") {
  if (!field.rule.refusal.empty()) fail_at(node.mark, field.key, ": ", field.rule.refusal, document::brief(node));
  const std::string found = node.kind == Kind::null ? "nothing" : quoted(flow(node));
  fail_at(node.mark, field.key, " expects ", expected, ", found ", found, hint);
}

/// A number or a switch that was written as a text: what to write instead.
std::string without_quotes(const Node& node, bool number) {
  if (node.kind != Kind::text) return "";
  try {
    const Node meant = document::plain_scalar(node.text, node.mark);
    if (number ? meant.is_number() : meant.kind == Kind::boolean)
      return str("; did you mean ", flow(meant), ", without quotes?");
  } catch (const Error&) {  // it is neither
  }
  return "";
}

std::string range_text(const ConfigRule& rule) {
  const bool from = std::isfinite(rule.min), to = std::isfinite(rule.max);
  std::string text;
  if (from) text = (rule.above_min ? "more than " : "at least ") + flow(rule.min);
  if (to) text += (from ? " and " : "") + std::string(rule.below_max ? "less than " : "at most ") + flow(rule.max);
  return text;
}

double checked_number(const ConfigField& field, const Node& node) {
  if (!node.is_number()) wrong_type(field, node, "a number", without_quotes(node, /*number=*/true));
  // Where the program computes they are zero, which may mean something else; by the bits, for that may be here.
  const uint64_t magnitude = std::bit_cast<uint64_t>(node.real) << 1;
  if (magnitude != 0 && magnitude < std::bit_cast<uint64_t>(std::numeric_limits<double>::min()) << 1)
    fail_at(node.mark, field.key, " is too close to zero, found ", quoted(node.text), ": write 0 or a larger number");
  const ConfigRule& rule = field.rule;
  const bool low = node.real < rule.min || (rule.above_min && node.real == rule.min);
  const bool high = node.real > rule.max || (rule.below_max && node.real == rule.max);
  if (low || high) fail_at(node.mark, field.key, " must be ", range_text(rule), ", found ", flow(node));
  return node.real;
}

[[noreturn]] void refuse_too_large(const ConfigField& field, const Node& node) {
  fail_at(node.mark, field.key, " has too large a whole number, found ", quoted(node.text));
}

int64_t checked_integer(const ConfigField& field, const Node& node) {
  if (node.kind == Kind::integer) {
    checked_number(field, node);
    return node.integer;
  }
  // DeepSpeed's files write whole numbers as 5e8 too.
  if (node.kind != Kind::real || std::floor(node.real) != node.real)
    wrong_type(field, node, "a whole number", without_quotes(node, /*number=*/true));
  constexpr double kExact = 1LL << 53;
  if (std::abs(node.real) > kExact) refuse_too_large(field, node);
  return static_cast<int64_t>(checked_number(field, node));
}

/// "5 epochs" or "10%"; nullopt: neither.
std::optional<StepCount> duration_of(const std::string& text) {
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string_view unit = trimmed({end, static_cast<size_t>(text.data() + text.size() - end)});
  if (error != std::errc() || !(amount > 0) || !std::isnormal(amount)) return {};
  if (unit == "epochs" || unit == "epoch") return StepCount::of(amount, StepCount::Unit::epochs);
  if (unit == "%" && amount <= 100) return StepCount::of(amount, StepCount::Unit::percent);
  return {};
}

StepCount checked_steps(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::text) {
    const int64_t steps = checked_integer(field, node);
    if (steps > StepCount::kMost) refuse_too_large(field, node);
    return steps;
  }
  if (const auto duration = duration_of(node.text)) return *duration;
  wrong_type(field, node, "a whole number of optimizer steps, \"5 epochs\" or \"10%\" of the run",
             without_quotes(node, /*number=*/true));
}

std::string steps_text(const StepCount& count) {
  switch (count.unit()) {
    case StepCount::Unit::steps:
      return std::to_string(count);
    case StepCount::Unit::epochs:
      return flow(count.amount()) + (count.amount() == 1 ? " epoch" : " epochs");
    case StepCount::Unit::percent:
      return flow(count.amount()) + "%";
  }
  fail(ExitCode::bug, "no such unit");
}

bool checked_boolean(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::boolean)
    wrong_type(field, node, field.rule.open.empty() ? "true or false" : "true, false or " + field.rule.open,
               without_quotes(node, /*number=*/false));
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
  const auto same = [&](const std::string& word) {
    return rule.any_case ? lower_case(word) == lower_case(text) : word == text;
  };
  if (const auto found = std::find_if(rule.values.begin(), rule.values.end(), same); found != rule.values.end())
    return *found;
  if (const std::string prefix = rule.numbered + ":"; !rule.numbered.empty() && text.starts_with(prefix)) {
    const std::string digits = text.substr(prefix.size());
    const auto is_digit = [](unsigned char c) { return c >= '0' && c <= '9'; };
    if (!digits.empty() && digits.size() < 4 && std::all_of(digits.begin(), digits.end(), is_digit)) return text;
  }
  if (!rule.refusal.empty()) wrong_type(field, node, choices(rule));
  const std::string near = nearest(text, rule.values);
  fail_at(node.mark, field.key, " must be ", choices(rule), ", found ", quoted(text),
          near.empty() ? "" : "; did you mean " + near + "?");
}

/// 20%, 8, 2/5 or a folder.
Portion checked_portion(const ConfigField& field, const Node& node) {
  const bool fraction = node.kind == Kind::real && std::floor(node.real) != node.real;
  if (fraction || (!node.is_number() && node.kind != Kind::text))
    wrong_type(field, node, "a share such as 20%, a number of images, a fold such as 1/5, or a folder",
               fraction && node.real > 0 && node.real < 1 ? str("; did you mean ", flow(node.real * 100), "%?") : "");
  const Portion portion =
      node.is_number() ? Portion{.amount = static_cast<double>(checked_integer(field, node))} : portion_of(node.text);
  if (const std::string fault = fault_of(portion); !fault.empty())
    fail_at(node.mark, field.key, " ", fault, ", found ", flow(node));
  return portion;
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

template <class Items>
std::string list_text(const Items& items) {
  const auto text =
      Overload{[](int64_t item) { return std::to_string(item); }, [](const auto& item) { return flow(item); }};
  return "[" + joined(items, ", ", text) + "]";
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

/// auto, or {cat: 3}.
ClassWeights checked_class_weights(const ConfigField& field, const Node& node) {
  ClassWeights weights;
  weights.automatic = node.kind == Kind::text && node.text == "auto";
  if (weights.automatic || node.kind == Kind::null) return weights;
  if (node.kind != Kind::map) wrong_type(field, node, "auto, or weights by class such as {cat: 3}");
  for (const document::Entry& entry : node.entries)
    weights.by_name[entry.key] =
        checked_number({field.key + "." + entry.key, field.target, "", field.rule}, entry.value);
  return weights;
}

std::string class_weights_text(const ClassWeights& weights) {
  if (weights.automatic) return "auto";
  return "{" + joined(weights.by_name, ", ", [](const auto& w) { return flow(w.first) + ": " + flow(w.second); }) + "}";
}

template <size_t N>
std::array<double, N> checked_numbers(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::list || node.items.size() != N) wrong_type(field, node, str("a list of ", N, " numbers"));
  std::array<double, N> numbers;
  for (size_t i = 0; i < N; ++i) numbers[i] = checked_number(field, node.items[i]);
  return numbers;
}

/// Reads an entry into the one of `keys` that it names; `owner` takes these.
void read_key(const document::Entry& entry, const std::vector<ConfigKey>& keys, const std::string& block,
              const std::string& owner) {
  const auto found = std::ranges::find(keys, entry.key, &ConfigKey::name);
  if (found != keys.end()) return read_field(as_field(*found, block), entry.value);
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) names.push_back(key.name);
  fail_at(entry.mark, "unknown key ", quoted(block + entry.key), "; ", owner, " takes ",
          names.empty() ? "none" : join_choices(names));
}

/// random_crop | {random_crop: {padding: 4}}
AugmentStep read_step(const ConfigField& field, const Node& node) {
  const bool with_parameters = node.kind == Kind::map && node.entries.size() == 1;
  if (!with_parameters && node.kind != Kind::text)
    wrong_type(field, node, "a list of steps such as flip or {random_crop: {padding: 4}}");
  Node name = node;
  name.kind = Kind::text;
  if (with_parameters) name.text = node.entries[0].key, name.mark = node.entries[0].mark;
  if (name.text == "normalize")
    fail_at(name.mark, field.key, " normalize is a key of its own: data.normalize: {mean: [...], std: [...]}");
  std::string word;
  read_field({field.key, &word, "", {.values = augment_step_names()}}, name);
  AugmentStep step = augment_step(word);
  if (!with_parameters) return step;
  const Node& parameters = node.entries[0].value;
  if (parameters.kind == Kind::null) return step;
  if (parameters.kind != Kind::map) wrong_type(field, parameters, "parameters of " + word + " in braces");
  const std::string block = field.key + "." + word + ".";
  for (const document::Entry& entry : parameters.entries) read_key(entry, keys_of(step), block, word);
  if (const auto fault = fault_of(step)) {
    const auto named = std::ranges::find(parameters.entries, fault->key, &document::Entry::key);
    fail_at(named == parameters.entries.end() ? parameters.mark : named->value.mark, block, fault->key, " ",
            fault->text);
  }
  return step;
}

std::string step_text(AugmentStep step) {
  const auto text = [](const ConfigKey& key) { return key.name + ": " + field_text(as_field(key, "")); };
  return str("{", name_of(step), ": {", joined(keys_of(step), ", ", text), "}}");
}

/// {pattern: "*.bias", weight_decay: 0}
optim::ParameterGroup read_group(const ConfigField& field, const Node& node) {
  if (node.kind != Kind::map)
    wrong_type(field, node, "a list of groups such as {pattern: \"*.bias\", weight_decay: 0}");
  optim::ParameterGroup group;
  bool chooses = false;
  for (const document::Entry& entry : node.entries) {
    read_key(entry, optim::keys_of(group), field.key + ".", "a group");
    chooses = chooses || entry.key == "pattern" || entry.key == "dimensions";
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

}  // namespace

ConfigField as_field(const ConfigKey& key, const std::string& block) {
  return {block + key.name, std::visit([](auto target) { return ConfigTarget(target); }, key.target), key.doc,
          key.rule};
}

std::string field_text(const ConfigField& field) {
  return std::visit(
      Overload{[](const bool* v) { return std::string(*v ? "true" : "false"); },
               [](const int64_t* v) { return std::to_string(*v); },
               [](const double* v) { return flow(*v); },
               [](const std::string* v) { return flow(*v); },
               [](const Choice& v) { return flow(v.word()); },
               [](const std::optional<int64_t>* v) { return *v ? std::to_string(**v) : std::string("null"); },
               [](const StepCount* v) { return steps_text(*v); },
               [](const std::optional<StepCount>* v) { return *v ? steps_text(**v) : std::string("null"); },
               [](const std::vector<StepCount>* v) { return "[" + joined(*v, ", ", steps_text) + "]"; },
               [&](const std::optional<bool>* v) {
                 const std::string& open = field.rule.open;
                 return !*v ? (open.empty() ? std::string("null") : open) : std::string(**v ? "true" : "false");
               },
               [](const std::array<double, 2>* v) { return list_text(*v); },
               [](const std::optional<double>* v) { return *v ? flow(**v) : std::string("null"); },
               [](const std::vector<double>* v) { return list_text(*v); },
               [](const std::vector<int64_t>* v) { return list_text(*v); },
               [](const std::vector<std::string>* v) { return list_text(*v); },
               [](const Portion* v) { return v->is_folder() ? flow(v->folder) : to_text(*v); },
               [](const Compat* v) { return compat_text(*v); },
               [](const ClassWeights* v) { return class_weights_text(*v); },
               [](const std::vector<AugmentStep>* v) { return "[" + joined(*v, ", ", step_text) + "]"; },
               [](const std::vector<optim::ParameterGroup>* v) { return "[" + joined(*v, ", ", group_text) + "]"; },
               [](const std::optional<optim::Optimizer>* v) { return std::string(*v ? optim::type_of(**v) : ""); },
               [](const optim::LrSchedule* v) { return std::string(optim::type_of(*v)); }},
      field.target);
}

void read_field(const ConfigField& field, const Node& node) {
  std::visit(
      Overload{
          [&](bool* v) { *v = checked_boolean(field, node); },
          [&](int64_t* v) { *v = checked_integer(field, node); },
          [&](double* v) { *v = checked_number(field, node); },
          [&](std::string* v) { *v = checked_text(field, node); },
          [&](const Choice& v) {
            ConfigField worded = field;
            worded.rule.values = v.words();
            v.choose(checked_text(worded, node));
          },
          [&](std::optional<int64_t>* v) { *v = checked_integer(field, node); },
          [&](StepCount* v) { *v = checked_steps(field, node); },
          [&](std::optional<StepCount>* v) { *v = checked_steps(field, node); },
          [&](std::vector<StepCount>* v) {
            if (node.kind != Kind::list || node.items.empty())
              wrong_type(field, node, "a list of optimizer steps, such as [300, 600] or [30 epochs, 60 epochs]");
            v->clear();
            for (const Node& item : node.items) v->push_back(checked_steps(field, item));
          },
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
          [&](Portion* v) { *v = checked_portion(field, node); },
          [&](Compat* v) { *v = checked_compat(field, node); },
          [&](ClassWeights* v) { *v = checked_class_weights(field, node); },
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

/// The whole numbers of a rule that allows few; empty: it allows more.
static std::vector<std::string> few_numbers(const ConfigRule& rule) {
  constexpr double kFew = 10;
  std::vector<std::string> numbers;
  if (!(rule.max - rule.min < kFew)) return numbers;
  for (auto n = static_cast<int64_t>(rule.min); n <= static_cast<int64_t>(rule.max); ++n)
    numbers.push_back(std::to_string(n));
  return numbers;
}

std::vector<std::string> words_for(const ConfigField& field) {
  using Words = std::vector<std::string>;
  const ConfigRule& rule = field.rule;
  if (!rule.only.empty()) return {rule.only};
  return std::visit(Overload{[](bool*) {
                               return Words{"true", "false"};
                             },
                             [&](std::optional<bool>*) {
                               return Words{"true", "false", rule.open.empty() ? "null" : rule.open};
                             },
                             [](const Choice& v) { return v.words(); }, [](Compat*) { return Words{"seed"}; },
                             [](ClassWeights*) { return Words{"auto"}; }, [&](int64_t*) { return few_numbers(rule); },
                             [&](const auto&) { return rule.values; }},
                    field.target);
}

bool takes_text(const ConfigField& field) {
  const bool text =
      std::holds_alternative<std::string*>(field.target) || std::holds_alternative<Portion*>(field.target);
  return text && words_for(field).empty();
}

std::string join_choices(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

}  // namespace ct
