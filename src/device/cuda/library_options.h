// What the libraries that compute for a backend, cuDNN and cuBLASLt, are opened with.
#pragma once

#include <cuda_runtime.h>

#include "device/cuda/library.h"

namespace ct::cuda {

struct LibraryOptions {
  cudaStream_t stream;  // everything that they launch runs in it
  LibraryPlaces places;
  bool autotune = false;
  bool tf32 = false;
};

}  // namespace ct::cuda
