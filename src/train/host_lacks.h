// Checks whether this host has the resources of a run, before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/config/config.h"

namespace ct {

/// The resources for `ranks` ranks that this host lacks: GPUs, arithmetic, images. Each is the error with which the run
/// itself would end. Reads no images, and allocates nothing on a GPU.
std::vector<Error> host_lacks(const Config& config, int64_t ranks);
/// The same as warnings, for runs that may take place on another host.
std::vector<std::string> host_warnings(const Config& config, int64_t ranks);

}  // namespace ct
