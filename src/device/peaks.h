// What a device can do at most, measured: for benchmarks to compare with.
#pragma once

#include "device/backend.h"
#include "device/cpu/convolution.h"

namespace ct {

struct DevicePeaks {
  double flops = 0;  // a second; 0: not measured
  double bytes = 0;  // a second, read and written, of a copy within the device's memory
  std::string text;  // what was measured, in a line
};

/// CPU: fused multiply-adds in registers of this thread's core in f32, from which follows what it can do in bf16, and
/// memcpy. GPU: a matrix product in `compute`, by cuBLASLt, and kernels/copy.h, each as large as it takes to be at its
/// best and fits.
DevicePeaks measure_peaks(Backend& backend, DType compute);

/// The part of measure_peaks() for CPUs: of a core that was measured in f32 and multiplies in bf16 by `unit`.
DevicePeaks cpu_peaks(DType compute, cpu::Bf16Unit unit, double f32_flops, double copy_bytes);

/// The part of measure_peaks() for GPUs.
DevicePeaks measure_cuda_peaks(Backend& backend, DType compute);

}  // namespace ct
