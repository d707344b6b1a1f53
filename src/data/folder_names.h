// Names in a folder where data lie, or are to lie.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

/// Does a program leave files or folders of this name beside a user's, who does not see them: ".DS_Store", ".git",
/// ".ipynb_checkpoints", macOS's "._a.jpg" and "__MACOSX", "@eaDir" of a NAS, Windows' "$RECYCLE.BIN"?
inline bool is_hidden_name(std::string_view name) {
  return name.starts_with('.') || name == "@eaDir" || name == "__MACOSX" || name == "$RECYCLE.BIN";
}

/// The first `most` names that are not hidden, sorted. Error(data) where the folder cannot be listed.
std::vector<std::string> visible_names(const std::filesystem::path& folder, size_t most);

/// What is said of a place without what is sought: "no such folder", "is empty", "holds no data set, only 'notes.txt'".
std::string lack_of(std::string_view sought, const std::filesystem::path& folder);

/// May a data set be written to `folder`: is there nothing, or nothing in it but hidden names, a README and that set
/// itself, which is called `set`?
bool is_vacant(const std::filesystem::path& folder, std::string_view set);

}  // namespace ct
