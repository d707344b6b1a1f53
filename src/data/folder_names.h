// Names in a folder of data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

/// Is this a name of files or folders that programs create invisibly, such as ".DS_Store", ".git",
/// ".ipynb_checkpoints", macOS's "._a.jpg" and "__MACOSX", "@eaDir" of a NAS, Windows' "$RECYCLE.BIN", "Thumbs.db" and
/// "desktop.ini"?
inline bool is_hidden_name(std::string_view name) {
  return name.starts_with('.') || name == "@eaDir" || name == "__MACOSX" || name == "$RECYCLE.BIN" ||
         name == "Thumbs.db" || name == "desktop.ini";
}

/// Is this a name of pictures that a run writes into its output folder, which may be that of its data?
constexpr bool is_picture_of_run(std::string_view name) {
  return name == "evaluation.png" || name == "sample_grid.png";
}

/// The first `most` names that are not hidden, sorted. Error(data) if the folder cannot be listed.
std::vector<std::string> visible_names(const std::filesystem::path& folder, size_t most);

/// The message for a folder without `sought`: "no such folder", "is empty", "holds no data set, only 'notes.txt'".
std::string lack_of(std::string_view sought, const std::filesystem::path& folder);

/// May a data set be written to `folder`? True if the folder does not exist, or contains nothing but hidden names, a
/// README and that set itself, whose name is `set`.
bool is_vacant(const std::filesystem::path& folder, std::string_view set);

}  // namespace ct
