// What is read where a sample is damaged and the set says to go on (OnCorrupt::skip): another one in its place. Which
// one is drawn by (seed, epoch, image), so that any number of workers and ranks, and a resume, take the same.
#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.h"

namespace ct {

/// Reads one image. Where it is damaged and the set says to go on, one of the `others` is read in its place, label and
/// all. Returns the one that was read, or kLeftOut where there are no others. Error(data) where one damaged image after
/// the other is drawn.
int64_t read_sample(const DataSet& set, uint32_t image, const SampleKey& key, std::span<const uint32_t> others,
                    uint8_t* to);
inline constexpr int64_t kLeftOut = -1;

}  // namespace ct
