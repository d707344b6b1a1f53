// What users should know of a data set that was opened, though nothing is wrong with it.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace ct {

/// A line each: what the set itself says (DataSet::notes()), and the classes of which it has no image.
std::vector<std::string> notes_of(const DataSet& set, Split split);
std::vector<std::string> notes_of(const DataSet& train, const DataSet& test);

/// A warning where both hold the same images; empty: they do not.
std::string same_images(const DataSet& train, const DataSet& test);

}  // namespace ct
