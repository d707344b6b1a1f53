// The division of the training images among training, validation and test, by the classes and the seed alone.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/portion.h"

namespace ct {

/// Numbers of images of the training set, ascending in each part.
struct Parts {
  std::vector<uint32_t> training, validation, test;
};

/// Some images of a set.
struct ImagePart {
  const DataSet* set = nullptr;
  std::vector<uint32_t> images = {};
  bool empty() const { return images.empty(); }
  int64_t count() const { return static_cast<int64_t>(images.size()); }
};
/// All of them; none of a null set.
ImagePart whole(const DataSet* set);

struct HoldOut {
  uint64_t seed = 0;
  int64_t limit = 0;  // the first images that are used (data.limit); 0: all
  Portion validation = {}, test = {};
};

/// Holds shares of the training set out, each with the classes in the same proportions. Every class keeps an image in
/// training, and has one in each other part if it has enough images. The test part does not depend on the validation
/// part. Error(usage) for a limit beyond the set and for more images than can be held out.
Parts divide(const DataSet& set, const HoldOut& how);

/// The set's fingerprint, changed by the numbers of the images that are held out.
uint32_t fingerprint(const DataSet& set, const Parts& parts);

}  // namespace ct
