// The description of an open data set for users: the output of `data info`, and notes that are not errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace ct {

/// Mean and standard deviation (of the population) of each channel over all pixels, in units of 0..1. For a set of
/// encoded pictures, a sample of images from the whole set is used; damaged ones are left out.
struct ChannelStatistics {
  int64_t images = 0;
  std::vector<double> mean, std;
};
ChannelStatistics channel_statistics(const DataSet& set);

/// Images of each class.
std::vector<int64_t> class_counts(const DataSet& set);

/// One line each: the set's own notes (DataSet::notes()), and the classes without images.
std::vector<std::string> notes_of(const DataSet& set, Split split);
std::vector<std::string> notes_of(const DataSet& train, const DataSet& test);

/// A warning if both contain the same images; empty: they do not.
std::string same_images(const DataSet& train, const DataSet& test);

}  // namespace ct
