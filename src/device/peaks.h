// What a device can do at most, measured: for benchmarks to compare with.
#pragma once

#include "device/backend.h"

namespace ct {

struct DevicePeaks {
  double flops = 0;  // a second; 0: not measured
  double bytes = 0;  // a second, read and written, of a copy within the device's memory
  std::string text;  // what was measured, in a line
};

/// CPU: fused multiply-adds in registers of this thread's core, in f32 whatever `compute` is, and memcpy. GPU: a matrix
/// product in `compute`, by cuBLASLt, and kernels/copy.h, each as large as it takes to be at its best and fits.
DevicePeaks measure_peaks(Backend& backend, DType compute);

/// The part of it for GPUs.
DevicePeaks measure_cuda_peaks(Backend& backend, DType compute);

}  // namespace ct
