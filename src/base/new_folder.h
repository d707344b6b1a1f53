// Atomic creation of a folder with its content, and the removal of folders that stayed empty.
#pragma once

#include <functional>
#include <vector>

#include "base/files.h"

namespace ct {

/// Creates `folder` and its missing parents: `fill` writes into an empty folder next to it (".tmp-<name>-<n>"), which
/// is then synced and renamed, so that no reader sees an incomplete folder. Several processes may call it at once: the
/// first to finish wins. Returns false if `folder` has come into existence meanwhile; the written files are then
/// removed; where it fails, the parents that it created, too. First removes what killed processes have left.
bool make_filled_folder(FileSystem& files, const Path& folder, const std::function<void(const Path& temporary)>& fill);

/// Removes what processes have left that were killed while they made `folder`: temporary folders that nobody has
/// locked, after a minute, and where there are no locks, after an hour. What cannot be removed stays.
void remove_left_folders(FileSystem& files, const Path& folder);

/// `folder` and the folders above it that are not there, the deepest first.
std::vector<Path> missing_folders(const Path& folder);
/// Removes these up to the first one that is not empty; one that is not there counts as removed.
void remove_empty_folders(FileSystem& files, const std::vector<Path>& folders);

/// Writes a new file, which is on the disk on return. For `fill`.
void write_new_file(FileSystem& files, const Path& path, std::span<const std::byte> bytes);

}  // namespace ct
