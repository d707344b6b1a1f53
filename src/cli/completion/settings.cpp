// KEY=VALUE, as --set takes it: from the table of keys; values: words_for() of train/config/field.h.
#include <algorithm>
#include <map>

#include "cli/completion/candidates.h"
#include "train/config/schema.h"

namespace ct {
namespace {

struct KeyWords {
  std::string about;
  std::vector<std::string> values;  // of all types that have the key
  bool is_text = false;             // any text, so it may be a file
};

std::map<std::string, KeyWords> table_of_keys() {
  std::map<std::string, KeyWords> keys;
  for (Config& config : configs_of_all_types())
    for (const ConfigField& field : config_fields(config)) {
      KeyWords& key = keys[field.key];
      if (key.about.empty()) key.about = field.doc;
      for (const std::string& word : words_for(field))
        if (std::ranges::find(key.values, word) == key.values.end()) key.values.push_back(word);
      key.is_text = key.is_text || takes_text(field);
    }
  return keys;
}

Candidates values_of(const KeyWords& key, const std::string& typed, const std::string& before) {
  Candidates found{.files = key.values.empty() && key.is_text ? Candidates::Files::any : Candidates::Files::none};
  for (const std::string& value : key.values)
    if (value.starts_with(typed)) found.words.push_back({before + value, ""});
  return found;
}

}  // namespace

Candidates value_candidates(const std::string& key, const std::string& typed) {
  const auto keys = table_of_keys();
  const auto found = keys.find(key);
  return found == keys.end() ? Candidates{} : values_of(found->second, typed, "");
}

Candidates setting_candidates(const std::string& typed) {
  const auto keys = table_of_keys();
  if (const size_t equals = typed.find('='); equals != typed.npos) {
    const auto key = keys.find(typed.substr(0, equals));
    if (key == keys.end()) return {};
    const size_t begin = typed.find_last_of("=,") + 1;  // a comma: of a sweep's values, each once
    const std::string given = "," + typed.substr(equals + 1, begin - equals - 1);
    Candidates found = values_of(key->second, typed.substr(begin), typed.substr(0, begin));
    std::erase_if(found.words, [&](const Candidate& candidate) {
      return given.find("," + candidate.word.substr(begin) + ",") != given.npos;
    });
    return found;
  }
  std::map<std::string, std::vector<std::string>> blocks;  // "train.": its keys; "seed=": itself
  for (const auto& [key, any] : keys)
    if (key.starts_with(typed)) {
      const size_t dot = key.find('.', typed.size());
      blocks[dot == key.npos ? key + "=" : key.substr(0, dot + 1)].push_back(key);
    }
  Candidates found;
  for (const auto& [word, members] : blocks)
    found.words.push_back(members.size() == 1 ? Candidate{members.front() + "=", keys.at(members.front()).about}
                                              : Candidate{word, ""});
  return found;
}

}  // namespace ct
