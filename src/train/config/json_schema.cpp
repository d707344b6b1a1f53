#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "train/config/document.h"
#include "train/config/field.h"
#include "train/config/foreign.h"
#include "train/config/merge.h"
#include "train/config/print.h"
#include "train/config/schema.h"

namespace ct {
namespace {

using Json = nlohmann::ordered_json;
using document::Node;

constexpr const char* kNotes = "^(_|x-)";

Json value_of(const Node& node) {
  switch (node.kind) {
    case document::Kind::boolean:
      return node.boolean;
    case document::Kind::integer:
      return node.integer;
    case document::Kind::real:
      return node.real;
    case document::Kind::text:
      return node.text;
    case document::Kind::list: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(value_of(item));
      return list;
    }
    case document::Kind::map: {
      Json map = Json::object();
      for (const document::Entry& entry : node.entries) map[entry.key] = value_of(entry.value);
      return map;
    }
    case document::Kind::null:
      break;
  }
  return nullptr;
}

Json value_of(const std::string& yaml) { return value_of(document::parse_yaml(yaml, nullptr)); }

/// Of words that are read in any case of letters.
std::string any_case_pattern(const std::vector<std::string>& words) {
  std::string pattern = "^(";
  for (const std::string& word : words) {
    if (&word != &words.front()) pattern += "|";
    for (const char c : word) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalpha(byte))
        pattern += {'[', static_cast<char>(std::toupper(byte)), static_cast<char>(std::tolower(byte)), ']'};
      else if (std::isdigit(byte) || c == '_')
        pattern += c;
      else
        pattern += {'\\', c};
    }
  }
  return pattern + ")$";
}

Json number(const ConfigRule& rule, const char* type) {
  Json schema = {{"type", type}};
  if (std::isfinite(rule.min)) schema[rule.above_min ? "exclusiveMinimum" : "minimum"] = rule.min;
  if (std::isfinite(rule.max)) schema[rule.below_max ? "exclusiveMaximum" : "maximum"] = rule.max;
  return schema;
}

Json text(const ConfigRule& rule, const std::vector<std::string>& words) {
  if (words.empty()) return rule.may_be_empty ? Json{{"type", "string"}} : Json{{"type", "string"}, {"minLength", 1}};
  Json schema;
  if (rule.any_case)
    schema = {{"type", "string"}, {"pattern", any_case_pattern(words)}};
  else
    schema = {{"enum", words}};
  if (rule.numbered.empty()) return schema;
  return {{"anyOf", {schema, {{"type", "string"}, {"pattern", "^" + rule.numbered + ":[0-9]{1,3}$"}}}}};
}

Json closed_object(Json properties) {
  return {{"type", {"object", "null"}},
          {"properties", std::move(properties)},
          {"patternProperties", {{kNotes, true}}},
          {"additionalProperties", false}};
}

Json values(const ConfigField& field);

/// 300, "5 epochs" or "10%".
Json steps(const ConfigRule& rule) {
  const Json duration = {{"type", "string"}, {"pattern", "^[0-9.]+ *(epochs?|%)$"}};
  return {{"anyOf", Json::array({number(rule, "integer"), duration})}};
}

/// Of the keys of one augmentation step or parameter group.
Json keys_object(const std::vector<ConfigKey>& keys) {
  Json properties = Json::object();
  for (const ConfigKey& key : keys) properties[key.name] = values(as_field(key, ""));
  return {{"type", {"object", "null"}}, {"properties", properties}, {"additionalProperties", false}};
}

Json augment_steps() {
  Json by_name = Json::object();
  for (const std::string& name : augment_step_names()) {
    AugmentStep step = augment_step(name);
    by_name[name] = keys_object(keys_of(step));
  }
  by_name["normalize"] = {{"type", "object"}};
  const Json with_keys = {{"type", "object"},
                          {"properties", by_name},
                          {"additionalProperties", false},
                          {"minProperties", 1},
                          {"maxProperties", 1}};
  return {{"type", "array"}, {"items", {{"anyOf", {{{"enum", augment_step_names()}}, with_keys}}}}};
}

Json flags() {
  const auto words = words_of(CompatFlag{});
  const std::vector<std::string> all(words.begin(), words.end());
  return {{"anyOf", {{{"const", "seed"}}, {{"type", "array"}, {"items", {{"enum", all}}}}}}};
}

/// What may be written for a key.
Json values(const ConfigField& field) {
  const ConfigRule& rule = field.rule;
  if (!rule.only.empty()) return {{"const", value_of(rule.only)}};
  return std::visit(
      Overload{[](const bool*) -> Json {
                 return {{"type", "boolean"}};
               },
               [&](const int64_t*) { return number(rule, "integer"); },
               [&](const double*) { return number(rule, "number"); },
               [&](const std::string*) { return text(rule, rule.values); },
               [&](const Choice& v) { return text(rule, v.words()); },
               [&](const std::optional<int64_t>*) { return number(rule, "integer"); },
               [&](const StepCount*) { return steps(rule); },
               [&](const std::optional<StepCount>*) { return steps(rule); },
               [&](const std::vector<StepCount>*) -> Json {
                 return {{"type", "array"}, {"items", steps(rule)}, {"minItems", 1}};
               },
               [&](const std::optional<double>*) { return number(rule, "number"); },
               [&](const std::optional<bool>*) -> Json {
                 return {{"enum", {true, false, rule.open.empty() ? Json(nullptr) : Json(rule.open)}}};
               },
               [&](const std::array<double, 2>*) -> Json {
                 return {{"type", "array"}, {"items", number(rule, "number")}, {"minItems", 2}, {"maxItems", 2}};
               },
               [&](const std::vector<double>*) -> Json {
                 return {{"type", "array"}, {"items", number(rule, "number")}, {"minItems", 1}};
               },
               [](const std::vector<std::string>*) -> Json {
                 return {{"type", "array"}, {"items", {{"type", "string"}, {"minLength", 1}}}};
               },
               [&](const std::vector<int64_t>*) -> Json {
                 return {{"type", "array"}, {"items", number(rule, "integer")}, {"minItems", 1}};
               },
               [](const std::vector<AugmentStep>*) { return augment_steps(); },
               [](const std::vector<optim::ParameterGroup>*) -> Json {
                 optim::ParameterGroup group;
                 return {{"type", "array"}, {"items", keys_object(optim::keys_of(group))}};
               },
               [&](const std::optional<optim::Optimizer>*) { return text(rule, rule.values); },
               [&](const optim::LrSchedule*) { return text(rule, rule.values); },
               [](const Portion*) -> Json {
                 return {{"anyOf", {{{"type", "integer"}, {"minimum", 0}}, {{"type", "string"}}}}};
               },
               [](const Compat*) { return flags(); },
               [&](const ClassWeights*) -> Json {
                 return {{"anyOf",
                          {{{"const", "auto"}},
                           {{"type", {"object", "null"}}, {"additionalProperties", number(rule, "number")}}}}};
               }},
      field.target);
}

Json of_field(const ConfigField& field) {
  Json schema = values(field);
  Node open, nothing;
  open.kind = document::Kind::text;
  open.text = "auto";
  nothing.kind = document::Kind::null;
  Json choices = Json::array({schema});
  if (is_left_open(field, open)) choices.push_back({{"const", "auto"}});
  if (is_left_open(field, nothing)) choices.push_back({{"type", "null"}});
  if (choices.size() > 1) schema = {{"anyOf", choices}};
  if (!field.doc.empty()) schema["description"] = field.doc;
  if (field.rule.resume_may_change) schema["x-resume_may_change"] = true;
  const std::string now = field_text(field);
  if (now != "null" && !now.empty() && !is_type(field)) schema["default"] = value_of(now);
  return schema;
}

/// A block that is switched off, and blocks in it, `depth` of them below each other.
Json switched_off(int depth) {
  Json block = {{"type", "object"}, {"properties", {{"enabled", {{"const", false}}}}}};
  if (depth > 0) {
    const Json below = switched_off(depth - 1), scalar = {{"not", {{"type", "object"}}}};
    block["additionalProperties"] = {{"anyOf", Json::array({scalar, below})}};
  }
  return block;
}

Json of_inert(const InertKey& inert) {
  Json schema = Json::object();
  if (inert.harmless.empty()) {
    schema["enum"] = Json::array({nullptr});
  } else if (inert.harmless != "*") {
    Json choices = Json::array({nullptr, "auto"});
    bool off = false;
    for (const std::string& choice : harmless_values(inert)) {
      off = off || choice == kSwitchedOff;
      if (choice != kSwitchedOff) choices.push_back(value_of(choice));
    }
    if (off)  // which of its blocks are switched on, the program tells
      schema["anyOf"] = {{{"enum", choices}}, {{"type", "object"}, {"additionalProperties", switched_off(3)}}};
    else
      schema["enum"] = choices;
  }
  schema["description"] = (inert.harmless.empty() ? "refused: " : "ignored: ") + inert.why;
  return schema;
}

class Tree {
 public:
  Tree() : root_(closed_object(Json::object())) { root_["type"] = "object"; }

  /// Another type's key of the same name may take other values: then either's.
  void add(const std::string& key, const Json& schema) {
    Json& place = block_of(key)["properties"][last_part(key)];
    if (place.is_null() || place == schema)
      place = schema;
    else if (!place.contains("anyOf") || !place.contains("$comment"))
      place = {{"$comment", "by type"}, {"anyOf", {place, schema}}};
    else if (std::ranges::find(place["anyOf"], schema) == place["anyOf"].end())
      place["anyOf"].push_back(schema);
  }

  /// Keys that are not listed are welcome in the block that "BLOCK.*" stands for.
  void open(const std::string& wildcard) { block_of(wildcard)["additionalProperties"] = true; }

  Json& block_of(const std::string& key) {
    Json* block = &root_;
    for (size_t begin = 0, dot; (dot = key.find('.', begin)) != std::string::npos; begin = dot + 1) {
      Json& place = (*block)["properties"][key.substr(begin, dot - begin)];
      if (place.is_null()) place = closed_object(Json::object());
      block = &place;
    }
    return *block;
  }
  Json& root() { return root_; }

 private:
  static std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }
  Json root_;
};

/// Where `type` is one of `words`, the block `where` takes only these names.
void restrict_names(Json& owner, const std::string& type, const Json& is, const std::string& where,
                    const std::set<std::string>& names) {
  const Json limit = {{"propertyNames", {{"anyOf", {{{"enum", names}}, {{"pattern", kNotes}}}}}}};
  owner["allOf"].push_back({{"if", {{"properties", {{type, is}}}, {"required", Json::array({type})}}},
                            {"then", where.empty() ? limit : Json{{"properties", {{where, limit}}}}}});
}

std::set<std::string> names_in(const std::string& block, Config config) {
  std::set<std::string> names;
  const std::string prefix = block + ".";
  for (const ConfigField& field : config_fields(config))
    if (field.key.starts_with(prefix)) names.insert(field.key.substr(prefix.size()));
  for (const InertKey& inert : inert_keys())
    if (inert.key.starts_with(prefix)) names.insert(inert.key.substr(prefix.size()));
  return names;
}

}  // namespace

Json json_schema() {
  Tree tree;
  for (Config& config : configs_of_all_types())
    for (const ConfigField& field : config_fields(config)) tree.add(field.key, of_field(field));
  for (const InertKey& inert : inert_keys()) {
    if (inert.key.ends_with(".*"))
      tree.open(inert.key);
    else
      tree.add(inert.key, of_inert(inert));
  }
  for (const KeyAlias& other : key_aliases()) {
    Json& block = tree.block_of(std::string(other.theirs));
    const auto last = [](std::string_view key) { return std::string(key.substr(key.rfind('.') + 1)); };
    Json same = block["properties"][last(other.ours)];
    same["description"] = str("another name of ", other.ours);
    if (other.given_up) same["deprecated"] = true;
    block["properties"][last(other.theirs)] = same;
  }
  for (const OldForm& form : old_forms()) {
    const std::string key(form.theirs);
    Json& old = tree.block_of(key)["properties"][key.substr(key.rfind('.') + 1)];
    if (old.contains("properties")) {
      old["type"] = {"object", "null", "boolean"};
      continue;
    }
    old.erase("enum");
    old["type"] = {"boolean", "null"};
    old["deprecated"] = true;
  }

  for (const optim::Optimizer& optimizer : optim::all_of<optim::Optimizer>()) {
    Config config;
    config.optimizer = optimizer;
    restrict_names(tree.root()["properties"]["optimizer"], "type",
                   {{"pattern", any_case_pattern({std::string(optim::type_of(optimizer))})}}, "params",
                   names_in("optimizer.params", config));
  }
  for (const optim::LrSchedule& scheduler : optim::all_of<optim::LrSchedule>()) {
    if (optim::type_of(scheduler).empty()) continue;
    Config config;
    config.scheduler = scheduler;
    restrict_names(tree.root()["properties"]["scheduler"], "type", {{"const", optim::type_of(scheduler)}}, "params",
                   names_in("scheduler.params", config));
  }
  for (const std::string& name : model_names()) {
    Config config;
    config.model.name = name;
    restrict_names(tree.root()["properties"]["model"], "name", {{"const", name}}, "", names_in("model", config));
  }
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "A configuration of cifar-train, or of DeepSpeed"}};
  schema.update(tree.root());
  return schema;
}

}  // namespace ct
