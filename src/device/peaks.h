// The measured peaks of a device, with which benchmarks compare.
#pragma once

#include "device/backend.h"
#include "device/cpu/convolution.h"

namespace ct {

struct DevicePeaks {
  double flops = 0;  // a second; 0: not measured
  double bytes = 0;  // a second, read and written, of a copy within the device's memory
  std::string text;  // the measurement, in one line
};

/// CPU: f32 fused multiply-adds in registers on this thread's core, from which the bf16 peak is derived, and memcpy.
/// GPU: a matrix product in `compute` by cuBLASLt, and kernels/copy.h, both large enough for the best speed, if memory
/// allows.
DevicePeaks measure_peaks(Backend& backend, DType compute);

/// The part of measure_peaks() for CPUs, given a core's measured f32 values and the unit with which it multiplies bf16.
DevicePeaks cpu_peaks(DType compute, cpu::Bf16Unit unit, double f32_flops, double copy_bytes);

/// The part of measure_peaks() for GPUs.
DevicePeaks measure_cuda_peaks(Backend& backend, DType compute);

}  // namespace ct
