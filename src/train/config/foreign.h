// What a configuration may say in the words of other programs. src/deepspeed/ defines these functions; a program that
// is built without that folder has no_deepspeed.cpp in its place, which knows no such words.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/document.h"

namespace ct {

inline constexpr std::string_view kSwitchedOff = "off";

/// A known key that sets nothing here. A harmless value is accepted and noted; any other would change the result, or
/// promise something that does not happen, and is refused by name. "block.*" stands for every key of a block that is
/// not listed itself.
struct InertKey {
  std::string key;
  // The values (as printed, any case, with | between them) that are ignored; "*": any. kSwitchedOff stands for a block
  // that has switches, each `enabled` of which is false.
  std::string harmless;
  std::string why;           // they are ignored
  std::string refusal = {};  // why any other is refused; empty: for the same reason
};
const std::vector<InertKey>& inert_keys();

/// The table's entry for a key, or nullptr.
const InertKey* find_inert(const std::string& key);

/// What is between the '|' of InertKey::harmless.
inline std::vector<std::string> harmless_values(const InertKey& inert) {
  std::vector<std::string> values;
  std::istringstream words(inert.harmless);
  for (std::string word; std::getline(words, word, '|');) values.push_back(word);
  return values;
}
/// May this value be ignored?
bool is_harmless(const InertKey& inert, const document::Node& value);
/// What is said of a value that may not: "KEY VALUE is not supported by this version; use ...".
std::string refusal_of(const InertKey& inert, const std::string& key, const document::Node& value);
/// Another name of a key; `given_up`: the user is warned of it.
struct OtherName {
  std::string_view theirs, ours;
  bool given_up = false;
};
std::span<const OtherName> other_names();

/// What a switch once said that is said by another key now: `theirs: when` is `ours: value`, and warned of.
struct OldForm {
  std::string_view theirs;
  bool when;
  std::string_view ours, value, instead;  // `instead` for people
};
std::span<const OldForm> old_forms();

/// The document in this program's words, as layers of which later ones win. Values keep their places.
std::vector<document::Node> in_own_words(const document::Node& root);

/// What a configuration says of evaluations of its run.
struct EvaluationKeys {
  std::string checkpoint;  // a weights file, or the folder of a checkpoint; empty: not given
  std::optional<int64_t> batch_size, max_images;
  std::string on_corrupt;  // data.on_corrupt; empty: not given
};
EvaluationKeys evaluation_of(const document::Node& root);

/// A configuration's text that stands in place of its file's name; nothing where such a file is there.
std::optional<std::string> text_in_place_of(const std::filesystem::path& file);
/// Could a word be meant so? Long, no path, and of the letters of such texts.
bool looks_encoded(const std::string& word);
/// For people: the path, or the beginning of what stands in its place.
std::string source_name(const std::filesystem::path& file);

/// Rules of features that other programs' configurations ask for. Throws Error(usage).
void check_foreign(const Config& config);

/// Is it a file of csv_monitor? An empty one is.
bool is_csv_series(const std::filesystem::path& path);

}  // namespace ct
