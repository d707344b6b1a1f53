// Known keys that set nothing in this version. A harmless value is accepted and noted; any other would change the
// result, or promise something that does not happen, and is refused by name. docs/configuration.md has the same words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/document.h"

namespace ct {

inline constexpr std::string_view kSwitchedOff = "off";

/// One of DeepSpeed's that this program does not implement, or a word of other programs. "block.*" stands for every key
/// of a block that is not listed itself.
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

/// May this value be ignored?
bool is_harmless(const InertKey& inert, const document::Node& value);
/// What is said of a value that may not: "KEY VALUE is not supported by this version; use ...".
std::string refusal_of(const InertKey& inert, const std::string& key, const document::Node& value);

}  // namespace ct
