// From a verified archive to the files of a data set.
#pragma once

#include "base/files.h"

namespace ct {

/// Writes the regular files that lie directly in `top`/ of a tar archive, gzipped or plain, into `folder`, and nothing
/// else: no name leads out of it, links and folders are passed over. Error(data) if there is none, if a name occurs
/// twice, or for a damaged archive.
void unpack_tar(FileSystem& files, const Path& archive, const std::string& top, const Path& folder);

/// Writes the content of a gzipped file to `to`, which must not exist. Error(data) for a damaged file.
void unpack_gzip(FileSystem& files, const Path& compressed, const Path& to);

}  // namespace ct
