// A folder that is there as a whole or not at all.
#pragma once

#include <functional>

#include "base/files.h"

namespace ct {

/// Makes `folder`, with its missing parents: `fill` writes into an empty folder beside it (".tmp-<name>-<n>"), which is
/// then synced and renamed, so that no reader ever meets a part. Several processes may do so at once: the first to
/// finish wins. False where something has come to lie at `folder` meanwhile: what was written is gone then. What jobs
/// killed an hour ago left goes first.
bool make_filled_folder(FileSystem& files, const Path& folder, const std::function<void(const Path& temporary)>& fill);

/// A file that is not there yet, on the disk when this returns. For `fill`.
void write_new_file(FileSystem& files, const Path& path, std::span<const std::byte> bytes);

}  // namespace ct
