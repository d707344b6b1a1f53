// What lies at a path. std::filesystem's queries either throw an exception of their own or, given an error_code, answer
// "no" to whatever went wrong; these tell "there is nothing" from "it cannot be looked at" (a folder that may not be
// searched, a loop of links, a name too long, a failing disk), which is an Error with the path and the remedy.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/files.h"

namespace ct {

enum class PathKind : uint8_t { nothing, file, folder, link, other };  // other: a device, pipe or socket

/// What the path leads to; a dangling link leads to nothing. Cannot be looked at: Error(code).
PathKind kind_of(const Path& path, ExitCode code = ExitCode::io);
/// What lies there itself, links not followed.
PathKind kind_of_entry(const Path& path, ExitCode code = ExitCode::io);

inline bool is_there(const Path& path, ExitCode code = ExitCode::io) {
  return kind_of(path, code) != PathKind::nothing;
}
inline bool is_folder(const Path& path, ExitCode code = ExitCode::io) {
  return kind_of(path, code) == PathKind::folder;
}

/// Do both lead to the same file or folder? False where one of them leads to nothing.
bool same_place(const Path& a, const Path& b, ExitCode code = ExitCode::io);

/// `path` from the root, without "." and ".."; as it was given where there is no working folder any more.
Path absolute_of(const Path& path);

}  // namespace ct
