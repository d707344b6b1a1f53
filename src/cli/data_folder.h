// Which data set lies in a folder, without writing anything there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ct {

/// The folder of batches that `dataset` (auto, cifar10 or synthetic) means under `path`, which may be that folder
/// itself; nothing when there is none. auto: CIFAR-10 before the synthetic set, as train chooses.
std::optional<std::filesystem::path> find_batches(const std::string& dataset, const std::filesystem::path& path);

}  // namespace ct
