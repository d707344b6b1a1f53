// Which data set a run uses: a kind that lies under data.path, else the one that the program makes itself.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "data/kinds.h"

namespace ct {

/// data.dataset (auto or a kind's key) under data.path, which may also be the set's folder itself, or in data.train and
/// data.val, whose absent one lies in data.path. auto takes the first automatic kind that is there (damaged or not:
/// opening it will tell). Call it on one rank. Throws Error(usage) for another name, Error(data) naming the folder and
/// the remedy.
DataSource locate_data(std::string_view dataset, const std::filesystem::path& path, LocateOptions options = {},
                       std::span<const DataKind> kinds = data_kinds());

/// The set that `dataset` means under `path`, without making one; nothing where there is none.
std::optional<DataSource> find_data(std::string_view dataset, const std::filesystem::path& path,
                                    const LocateOptions& options = {});

/// The folder that data.path means when nothing else is said. It alone is made where it is not there.
inline constexpr std::string_view kShippedFolder = "data";

/// Throws Error(data) when there is nothing at a path that somebody named (data.path, --data), other than the shipped
/// folder: a slip of the pen must not become a folder with a data set in it. `dataset`: which is sought, by key or
/// name.
void require_named_folder(const std::filesystem::path& path, std::string_view dataset = "auto");

}  // namespace ct
