// CIFAR-10 as a kind of data set, and the functions that it shares with other sets of the same file layout.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/cifar/cifar_set.h"
#include "data/kinds.h"

namespace ct {

/// "download it with: cifar-train data fetch cifar10 --out parent ..."
std::string how_to_get_cifar(const std::filesystem::path& parent);
/// path/name, or path if it is that folder itself.
std::filesystem::path folder_named(std::string_view name, const std::filesystem::path& path);
/// Is this a folder of batches, under any name?
bool holds_batches(const std::filesystem::path& folder);
/// `path` itself if it is a folder of batches or has the name of one, otherwise path/name.
std::filesystem::path batches_at(std::string_view name, const std::filesystem::path& path);

/// Members of a DataKind whose files have CIFAR-10's layout: open, size and verify. verify compares every byte by
/// checksum; differences from the published files of CIFAR-10 only cause a note. Error(data) only without such a folder
/// or with bad class names.
std::unique_ptr<DataSet> open_batches(const DataSource& source, Split split, const OpenOptions& options);
DataSize size_of_batches(const DataSource& source, const OpenOptions& options);
std::vector<FileReport> verify_batches(const std::filesystem::path& folder, const OpenOptions& options = {},
                                       Depth depth = Depth::every_byte);

/// SHA-1 of data_batch_1..5.bin and test_batch.bin, in this order.
inline constexpr std::array<std::string_view, 6> kCifarSha1 = {
    "aadd24acce27caa71bf4b10992e9e7b2d74c2540", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "1dd00a74ab1d17a6e7d73e185b69dbf31242f295", "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "26e2849e66a845b7f1e4614ae70f4889ae604628", "67eb016db431130d61cd03c7ad570b013799c88c"};
/// A note about files with these SHA-1, in the same order (empty: unknown), that differ from the published ones. Empty:
/// none does.
std::string note_of_published(std::span<const std::string> sha1);

}  // namespace ct
