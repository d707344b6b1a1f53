#include "device/peaks.h"

#include <algorithm>
#include <cstdio>
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

}  // namespace

DevicePeaks measure_peaks(Backend& backend, DType compute) {
  if (!backend.is_host()) return measure_cuda_peaks(backend, compute);
  DevicePeaks peaks{.flops = core_flops(), .bytes = copy_rate(backend), .text = {}};
  char text[100];
  std::snprintf(text, sizeof text, "measured peaks of this core: %.0f GFLOP/s, %.1f GB/s copy", peaks.flops / 1e9,
                peaks.bytes / 1e9);
  peaks.text = text;
  return peaks;
}

}  // namespace ct
