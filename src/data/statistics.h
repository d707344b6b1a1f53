// What `data info` prints of a data set.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace ct {

/// Mean and standard deviation (of the population) of each channel over all pixels, in units of 0..1. Of a set that
/// must be decoded, some images from beginning to end stand for all of them; damaged ones do not count.
struct ChannelStatistics {
  int64_t images = 0;
  std::vector<double> mean, std;
};
ChannelStatistics channel_statistics(const DataSet& set);

/// Images of each class.
std::vector<int64_t> class_counts(const DataSet& set);

}  // namespace ct
