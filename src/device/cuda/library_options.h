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
  std::string planned_for =
      {};  // a GPU's properties in cuDNN's own form, to plan for it where there is none, without running
};

}  // namespace ct::cuda
