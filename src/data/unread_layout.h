// What lies where a data set is looked for and is none that the program reads as it lies there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/kinds.h"

namespace ct {

/// What it is that lies at `path` (data.path) and what to do, in a line that names the place: an archive, folders of
/// pictures under other names or one level down, one split of them, CIFAR-10's python archive, another format. Empty:
/// nothing that is known here. `wanted`: no more than could become a set of that kind; null: of any. `evaluated`: as in
/// LocateOptions.
std::string unread_layout(const std::filesystem::path& path, const DataKind* wanted = nullptr,
                          std::optional<Split> evaluated = {});

/// The same of a file by its name's ending: an archive or another format.
std::string unread_file(const std::filesystem::path& path);

/// Is `path` one split of a folder of pictures: do pictures lie in a folder right below it?
bool is_one_split(const std::filesystem::path& path);

}  // namespace ct
