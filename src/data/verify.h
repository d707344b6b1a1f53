// Looking at data on disk: what `data verify` and `data info` print.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/cifar_binary.h"

namespace ct {

struct FileReport {
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::string sha256;  // empty: not readable
  int64_t records = 0;
  std::array<int64_t, kImageClasses> per_class{};
  int64_t bad_labels = 0;
  std::string problem;  // what is wrong, in one line without the path; empty: nothing
};

/// All six files, whole or not: damage is reported, not thrown. Of the synthetic set every byte is compared, by
/// checksum. Error(data) only without such a folder or with bad class names.
std::vector<FileReport> inspect_files(const std::filesystem::path& folder);

/// Mean and standard deviation (of the population) of each channel over all pixels, in units of 0..1.
struct ChannelStatistics {
  std::array<double, kImageChannels> mean{}, std{};
};
ChannelStatistics channel_statistics(const ImageSet& set);

/// Images of each class.
std::array<int64_t, kImageClasses> class_counts(const ImageSet& set);

}  // namespace ct
