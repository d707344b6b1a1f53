// Filters for the first layer of a network that make the elements of image patches uncorrelated with equal variance:
// principal components divided by their standard deviations (after Page, "How to Train Your ResNet 8: Bag of Tricks",
// 2019, and Jordan, 2024).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace ct {

/// Patches [channels][side][side] are cut from `images` of the set, of which the first thousand are used, and
/// normalised as u8 * scale + shift, with one scale and one shift per channel. Filters are pairs of a component and its
/// negative, because an activation such as GELU drops one half of each: first all components in descending order of
/// variance, half of `filters` (rounded up), then their negatives. There are at most two filters for each element of a
/// patch, and none if no image has a patch. Computed in double precision, with the same bits on one kind of machine.
/// Rethrows errors of reading.
std::vector<float> whitening_filters(const DataSet& set, std::span<const uint32_t> images, std::span<const float> scale,
                                     std::span<const float> shift, int64_t side, int64_t filters);

}  // namespace ct
