// A picture of a data set: some images of every class.
#pragma once

#include <string>

#include "data/dataset.h"

namespace ct {

struct SampleSheet {
  std::string png;
  int64_t each = 0;     // images of a class, side by side; fewer where the class has fewer
  int64_t classes = 0;  // in a row, in their order
};

/// Images are at most 64 px wide and high, in units of shape(); damaged ones are left out. Error(usage) for images that
/// have neither one nor three channels.
SampleSheet sample_sheet(const DataSet& set);

}  // namespace ct
