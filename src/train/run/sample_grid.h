// The picture of a run's first images (train.sample_grid).
#pragma once

#include "base/files.h"
#include "data/pipeline.h"

namespace ct {

/// Writes sample_grid.png into the folder `run`: the first images of the first batch, at most 256, before augmentation
/// on the device, normalised by `mean` and `std` (a number for each channel, or one for all). They depend on the seed
/// and the data alone, so any start of a run, on any number of ranks, writes the same bytes. Returns false and writes
/// nothing if images with this number of channels are not a picture. Error(io).
bool write_sample_grid(FileSystem& files, const Path& run, const Pipeline& images, std::span<const double> mean,
                       std::span<const double> std);

}  // namespace ct
