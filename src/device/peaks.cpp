#include "device/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/seconds.h"
#include "device/cpu/kernels/peak.h"

namespace ct {
namespace {

constexpr int kTries = 5;

double core_flops() {
  float sink = 0;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    int64_t flops = 0;
    const double seconds = seconds_of([&] { flops = cpu::multiply_adds(2'000'000, &sink); });
    best = std::max(best, static_cast<double>(flops) / seconds);
  }
  return best;
}

double copy_rate(Backend& backend) {
  const size_t bytes = size_t{256} << 20;
  const Memory from = backend.allocate(bytes), to = backend.allocate(bytes);
  std::memset(from.data(), 1, bytes);
  double best = 0;
  for (int i = 0; i < kTries; ++i)
    best = std::max(best,
                    2.0 * static_cast<double>(bytes) / seconds_of([&] { std::memcpy(to.data(), from.data(), bytes); }));
  return best;
}

/// FLOP a cycle of a core, twice the multiply-adds, which nothing here needs to measure in bf16: the ratio counts.
/// VDPBF16PS adds two products to each of its 16 floats, where an FMA adds one, at best as often. AMX's TDPBF16PS adds
/// 32 products to each of 16 x 16 floats and takes 16 cycles, on cores with two units for FMAs of 16 floats.
struct PerCycle {
  cpu::Bf16Unit unit;
  const char* name;
  double bf16, f32;
};
constexpr PerCycle kPerCycle[] = {{cpu::Bf16Unit::avx512, "AVX512-BF16", 128, 64},
                                  {cpu::Bf16Unit::amx, "AMX", 1024, 64}};

}  // namespace

DevicePeaks cpu_peaks(DType compute, cpu::Bf16Unit unit, double f32_flops, double copy_bytes) {
  DevicePeaks peaks{.flops = f32_flops, .bytes = copy_bytes, .text = {}};
  peaks.text =
      fmt::format("measured peaks of this core: {:.0f} GFLOP/s, {:.1f} GB/s copy", f32_flops / 1e9, copy_bytes / 1e9);
  for (const PerCycle& c : kPerCycle) {
    if (compute != DType::bf16 || c.unit != unit) continue;
    peaks.flops = f32_flops * c.bf16 / c.f32;
    peaks.text += fmt::format("; in bf16 by {} at most {:.0f} times as many, {:.0f} GFLOP/s", c.name, c.bf16 / c.f32,
                              peaks.flops / 1e9);
  }
  return peaks;
}

DevicePeaks measure_peaks(Backend& backend, DType compute) {
  if (!backend.is_host()) return measure_cuda_peaks(backend, compute);
  return cpu_peaks(compute, cpu::bf16_unit(), core_flops(), copy_rate(backend));
}

}  // namespace ct
