// Kinds of paths. std::filesystem's queries either throw their own exceptions or, with an error_code, return false for
// every failure. These functions distinguish "does not exist" from "cannot be accessed" (a folder without search
// permission, a loop of links, a name too long, a failing disk), which is an Error with the path and the remedy.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/files.h"

namespace ct {

enum class PathKind : uint8_t { nothing, file, folder, link, other };  // other: a device, pipe or socket

/// The kind of the path, with links followed; a dangling link is `nothing`. Error(code) if it cannot be accessed.
PathKind kind_of(const Path& path, ExitCode code = ExitCode::io);
/// The kind of the entry itself, without following links.
PathKind kind_of_entry(const Path& path, ExitCode code = ExitCode::io);

inline bool is_there(const Path& path, ExitCode code = ExitCode::io) {
  return kind_of(path, code) != PathKind::nothing;
}
inline bool is_folder(const Path& path, ExitCode code = ExitCode::io) {
  return kind_of(path, code) == PathKind::folder;
}

/// Are both the same file or folder? False if one of them does not exist.
bool same_place(const Path& a, const Path& b, ExitCode code = ExitCode::io);

/// The absolute path of what it leads to, without links as far as they can be followed; also where nothing is there
/// yet.
Path without_links(const Path& path);

/// A name beside `path` that nothing has yet: "PATH.aside", "PATH.aside-2".
Path free_name_for(const Path& path);

/// The absolute path without "." and ".."; unchanged if the working folder no longer exists.
Path absolute_of(const Path& path);

}  // namespace ct
