// Filters for the first layer of a network that make the elements of patches of images uncorrelated and of equal
// variance: principal components over their standard deviations (after Page, "How to Train Your ResNet 8: Bag of
// Tricks", 2019, and Jordan, 2024).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace ct {

/// Patches are [channels][side][side] of the first `images` of a set, some thousand at most, normalised as
/// u8 * scale + shift, a number for each channel. Filters come as pairs of a component and its negative, since ReLU
/// takes one half of each: first all components, the most important first, as many as half of `filters` (rounded up),
/// then their negatives. There are no more than two for each element of a patch, and none where no image has a patch.
/// In double precision: the same bits on machines of a kind. Throws what reading does.
std::vector<float> whitening_filters(const DataSet& set, std::span<const uint32_t> images, std::span<const float> scale,
                                     std::span<const float> shift, int64_t side, int64_t filters);

}  // namespace ct
