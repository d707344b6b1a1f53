// The description of an open data set for users: the output of `data info`, and notes that are not errors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/pictures/picture.h"

namespace ct {

/// Mean and standard deviation (of the population) of each channel over all pixels, in units of 0..1. For a set of
/// encoded pictures, a sample of images from the whole set is used; damaged ones are left out.
struct ChannelStatistics {
  int64_t images = 0;
  std::vector<double> mean, std;
};
ChannelStatistics channel_statistics(const DataSet& set);

/// The smallest and the largest picture, by their pixels, of pictures that are resized to samples, or of 2000 from the
/// whole set; damaged ones are left out. nullopt: all images have the size of a sample.
struct PictureSizes {
  int64_t pictures = 0;  // looked at
  PictureSize smallest, largest;
};
std::optional<PictureSizes> picture_sizes(const DataSet& set);

/// Images of each class, in the whole set or among `images`.
std::vector<int64_t> class_counts(const DataSet& set);
std::vector<int64_t> class_counts(const DataSet& set, std::span<const uint32_t> images);

/// "2 classes: cat 14, dog 26"; of many classes their least and most images.
std::string class_line(const DataSet& set);

/// One line each: the set's own notes (DataSet::notes()), and the classes without images.
std::vector<std::string> notes_of(const DataSet& set, Split split);

/// A warning if a file of a set is a copy of another one of it; empty: none is, or the set has no such files.
std::string repeated_images(const DataSet& set);

/// A warning if `others`, which do not train, are the training images, or a file of them; empty: they are not.
std::string same_images(const DataSet& train, const DataSet& others, Split split);

}  // namespace ct
