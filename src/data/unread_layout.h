// Recognises data that the program cannot read in its present form.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/kinds.h"

namespace ct {

/// The kind of the data at `path` (data.path) and the remedy, in one line with the path: an archive, folders of
/// pictures under other names or one level down, one split of them, CIFAR-10's python archive, another format. Empty:
/// unknown content. `wanted`: only data that could become a set of that kind; null: any. `evaluated`: as in
/// LocateOptions.
std::string unread_layout(const std::filesystem::path& path, const DataKind* wanted = nullptr,
                          std::optional<Split> evaluated = {});

/// The same for a file, by the ending of its name: an archive or another format.
std::string unread_file(const std::filesystem::path& path);

/// Is `path` one split of a folder of pictures, that is, does it contain folders with pictures?
bool is_one_split(const std::filesystem::path& path);

}  // namespace ct
