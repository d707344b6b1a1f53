#include "device/cuda/device.h"

namespace ct::cuda {

std::vector<std::string> kernel_architectures() { return {CT_CUDA_ARCHITECTURES}; }

}  // namespace ct::cuda
