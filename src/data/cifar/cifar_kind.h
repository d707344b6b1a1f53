// CIFAR-10 as a kind of data set, and what any set in its files' layout shares with it.
#pragma once

#include "data/cifar/cifar_set.h"
#include "data/kinds.h"

namespace ct {

DataKind cifar_kind();

/// "download ... and unpack it in parent/"
std::string how_to_get_cifar(const std::filesystem::path& parent);
/// path/name, or path where it is that folder itself.
std::filesystem::path folder_named(std::string_view name, const std::filesystem::path& path);
/// A folder of batches under any name may be given itself.
bool holds_batches(const std::filesystem::path& folder);
/// `path` itself where it is a folder of batches or has one's name, else path/name.
std::filesystem::path batches_at(std::string_view name, const std::filesystem::path& path);

/// Members of a DataKind whose files have CIFAR-10's layout: open, size and look.
std::unique_ptr<DataSet> open_batches(const DataSource& source, Split split, const OpenOptions& options);
DataSize size_of_batches(const DataSource& source, const OpenOptions& options);
std::string look_at_batches(const std::filesystem::path& folder);

}  // namespace ct
