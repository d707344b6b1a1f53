// What people should know of a data set that was opened: what `data info` prints, and notes on sets with which nothing
// is wrong.
#pragma once

#include <cstdint>
#include <string>
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

/// A line each: what the set itself says (DataSet::notes()), and the classes of which it has no image.
std::vector<std::string> notes_of(const DataSet& set, Split split);
std::vector<std::string> notes_of(const DataSet& train, const DataSet& test);

/// A warning where both hold the same images; empty: they do not.
std::string same_images(const DataSet& train, const DataSet& test);

}  // namespace ct
