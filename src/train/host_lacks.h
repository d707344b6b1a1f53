// What a run asks of the host that it is started on, looked at before it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/config/config.h"

namespace ct {

/// What this host has not that `ranks` ranks on it would need: GPUs, arithmetic, images. Each is the error with which
/// the run itself would end. No image is read, and nothing is allocated on a GPU.
std::vector<Error> host_lacks(const Config& config, int64_t ranks);
/// The same as warnings, for runs that may take place on another host.
std::vector<std::string> host_warnings(const Config& config, int64_t ranks);

}  // namespace ct
