// Support for configurations of other programs. src/deepspeed/ defines these functions; a program that is built without
// that folder uses no_deepspeed.cpp, which supports none.
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

/// A known key without effect here. A harmless value is ignored with a message; any other would change the result or
/// have no effect, and is refused. "block.*" means every key of a block that is not listed itself.
struct InertKey {
  std::string key;
  // The ignored values (as printed, in any case, separated by |); "*": any. kSwitchedOff means a block whose `enabled`
  // keys are all false.
  std::string harmless;
  std::string why;           // the reason why they are ignored
  std::string refusal = {};  // the reason why others are refused; empty: the same
};
const std::vector<InertKey>& inert_keys();

/// The table's entry for a key, or nullptr.
const InertKey* find_inert(const std::string& key);

/// The values in InertKey::harmless.
inline std::vector<std::string> harmless_values(const InertKey& inert) {
  std::vector<std::string> values;
  std::istringstream words(inert.harmless);
  for (std::string word; std::getline(words, word, '|');) values.push_back(word);
  return values;
}
/// May this value be ignored?
bool is_harmless(const InertKey& inert, const document::Node& value);
/// The error for a value that may not be ignored: "KEY VALUE is not supported by this version; use ...".
std::string refusal_of(const InertKey& inert, const std::string& key, const document::Node& value);
/// An alias of a key; `given_up`: deprecated, with a warning.
struct KeyAlias {
  std::string_view theirs, ours;
  bool given_up = false;
};
std::span<const KeyAlias> key_aliases();

/// A deprecated switch: `theirs: when` means `ours: value`, with a warning.
struct OldForm {
  std::string_view theirs;
  bool when;
  std::string_view ours, value, instead;  // `instead` is for the message
};
std::span<const OldForm> old_forms();

/// The document with this program's keys, as layers; later layers win. Values keep their positions.
std::vector<document::Node> in_own_words(const document::Node& root);

/// The keys of a configuration for evaluations of its run.
struct EvaluationKeys {
  std::string checkpoint;  // a weights file, or the folder of a checkpoint; empty: not given
  std::optional<int64_t> batch_size, max_images;
  std::string on_corrupt;  // data.on_corrupt; empty: not given
};
EvaluationKeys evaluation_of(const document::Node& root);

/// A configuration's text given instead of a file name; nullopt if such a file exists.
std::optional<std::string> text_in_place_of(const std::filesystem::path& file);
/// Could a word be an encoded text? It is if it is long, not a path, and has only letters of such texts.
bool looks_encoded(const std::string& word);
/// For messages: the path, or the beginning of the text given instead.
std::string source_name(const std::filesystem::path& file);

/// Checks rules of features for other programs' configurations. Throws Error(usage).
void check_foreign(const Config& config);

/// Is it a file of csv_monitor? An empty one is.
bool is_csv_series(const std::filesystem::path& path);

}  // namespace ct
