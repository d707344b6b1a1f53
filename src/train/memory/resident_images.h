// Does the training set lie in the GPU's memory? Then a step gets the numbers of its images, and picks their pixels
// there.
#pragma once

#include <optional>

#include "train/memory/estimate.h"

namespace ct {

/// The images of sets that are only copied from the host's memory (DataSet::direct) may lie on a GPU, once for each
/// rank.
bool may_be_resident(const Config& config, const DataSpec& data);

/// Bytes of the set.
int64_t resident_bytes(const DataSpec& data);

/// Does the set lie there with this stage? Only if it and all else that the GPU's ranks need take at most 9/10 of
/// `room`, the memory that is free before any of them allocates. The rest is for what no estimate counts: kernels that
/// are loaded at first use, the channels of NCCL, other programs. Without `room` (no GPU here) the set is taken to fit.
bool images_fit(Backend& backend, EstimateOf what, int stage, const std::optional<Backend::Room>& room);

/// estimate_stage() with the set in the GPU's memory if it fits.
StageEstimate estimate_with_images(Backend& backend, EstimateOf what, int stage,
                                   const std::optional<Backend::Room>& room);

}  // namespace ct
