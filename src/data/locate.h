// Selects the data set of a run: a set in data.path, otherwise the synthetic set.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "data/kinds.h"

namespace ct {

/// Locates data.dataset (auto or a kind's key) in data.path, which may also be the set's own folder, or in data.train
/// and data.val; if one of these is absent, that split is in data.path. auto selects the first automatic kind that is
/// present, damaged or not. Must be called on one rank. Throws Error(usage) for an unknown name, Error(data) with the
/// folder and the remedy.
DataSource locate_data(std::string_view dataset, const std::filesystem::path& path, LocateOptions options = {},
                       std::span<const DataKind> kinds = data_kinds());

/// The set of `dataset` in `path`, without generating one; nullopt: there is none.
std::optional<DataSource> find_data(std::string_view dataset, const std::filesystem::path& path,
                                    const LocateOptions& options = {});

/// The default of data.path. Only this folder is created if it does not exist.
inline constexpr std::string_view kShippedFolder = "data";

/// Throws Error(data) if a given path (data.path, --data) does not exist, unless it is the default folder, so that a
/// typing error does not create a folder with a data set. `dataset`: the sought set, by key or name.
void require_named_folder(const std::filesystem::path& path, std::string_view dataset = "auto");

}  // namespace ct
