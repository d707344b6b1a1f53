// The options for opening a backend's compute libraries, cuDNN and cuBLASLt.
#pragma once

#include <cuda_runtime.h>

#include "device/cuda/library.h"

namespace ct::cuda {

struct LibraryOptions {
  cudaStream_t stream;  // all their launches run in it
  LibraryPlaces places;
  bool autotune = false;
  bool tf32 = false;
  // A GPU's properties in cuDNN's own form: plans are made for it, where it need not be, and are not run.
  std::string planned_for = {};
};

}  // namespace ct::cuda
