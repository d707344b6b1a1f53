#include <nvtx3/nvToolsExt.h>

#include "device/cuda/ranges.h"

namespace ct::cuda {

Range::Range(const std::string& name) { nvtxRangePushA(name.c_str()); }
Range::~Range() { nvtxRangePop(); }

}  // namespace ct::cuda
