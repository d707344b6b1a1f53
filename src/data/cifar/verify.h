// The six files of a set in CIFAR-10's layout, read byte by byte: what `data verify` prints.
#pragma once

#include <filesystem>
#include <vector>

#include "data/kinds.h"

namespace ct {

/// All files, whole or not: damage is reported, not thrown. Of the synthetic set every byte is compared, by checksum;
/// of CIFAR-10 too, where others than its author's are noted. Error(data) only without such a folder or with bad class
/// names.
std::vector<FileReport> inspect_files(const std::filesystem::path& folder);

}  // namespace ct
