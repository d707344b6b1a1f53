// Pictures that somebody has, laid out as no kind of data set reads them.
#pragma once

#include <filesystem>

namespace ct {

/// Throws Error(data), with the remedy, where `path` (data.path) holds half a folder of pictures, one split of it, file
/// lists or CIFAR-10's python archive: that is a mistake, not a place for a set that the program makes itself.
void refuse_unread_layout(const std::filesystem::path& path);

}  // namespace ct
