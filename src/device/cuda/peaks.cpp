#include "device/peaks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/seconds.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_backend.h"
#include "kernels/copy.h"

namespace ct::cuda {
namespace {

/// A launch that takes this long is long enough to be at its best. Only what is no GPU takes it for less than the
/// largest sizes below.
constexpr double kLong = 0.05;
constexpr int64_t kCopyBytes = int64_t{1} << 30, kLeastCopyBytes = int64_t{1} << 18;
constexpr int64_t kProductSize = 8192, kLeastProductSize = 128;

/// Seconds of one launch, the best of a few rows of them.
double best_seconds(Backend& backend, const std::function<void()>& launch) {
  const auto row = [&](int launches) {
    backend.wait();
    const double seconds = seconds_of([&] {
      for (int i = 0; i < launches; ++i) launch();
      backend.wait();
    });
    return seconds / launches;
  };
  row(1);  // loads the kernel
  double best = row(1);
  if (best > kLong) return best;
  for (int i = 0; i < 5; ++i) best = std::min(best, row(20));
  return best;
}

/// Numbers of both signs between one half and one: a product of zeros takes less power, and so less time.
Memory filled(Backend& backend, DType type, size_t bytes) {
  constexpr size_t kPiece = size_t{1} << 20;
  const Memory host = backend.allocate_host(std::min(bytes, kPiece));
  const auto write = [&](auto kind, uint32_t base, uint32_t random_bits) {
    using Bits = decltype(kind);
    uint32_t random = 1;
    for (size_t i = 0; i < host.bytes() / sizeof(Bits); ++i) {
      random = random * 1664525 + 1013904223;
      reinterpret_cast<Bits*>(host.data())[i] = static_cast<Bits>(base | ((random ^ random >> 13) & random_bits));
    }
  };
  if (type == DType::f32)
    write(uint32_t{}, 0x3F000000, 0x807FFFFF);
  else
    write(uint16_t{}, type == DType::bf16 ? 0x3F00 : 0x3800, type == DType::bf16 ? 0x807F : 0x83FF);
  Memory memory = backend.allocate(bytes);
  for (size_t at = 0; at < bytes; at += host.bytes())
    backend.copy(memory.data() + at, host.data(), std::min(host.bytes(), bytes - at));
  backend.wait();
  return memory;
}

struct Measured {
  int64_t size;
  double rate;
};

Measured copy_rate(CudaBackend& backend) {
  Measured best{0, 0};
  for (int64_t bytes = kLeastCopyBytes; bytes <= kCopyBytes && 3 * bytes < backend.room()->available; bytes *= 4) {
    const Memory from = backend.allocate(static_cast<size_t>(bytes)), to = backend.allocate(static_cast<size_t>(bytes));
    const kernels::CopyArgs args{.from = from.data(), .to = to.data(), .bytes = bytes};
    const double seconds = best_seconds(backend, [&] { CT_CUDA(kernels::copy(args, backend.stream())); });
    best = {bytes, 2 * static_cast<double>(bytes) / seconds};  // the largest: smaller ones may lie in a cache
    if (seconds > kLong) break;
  }
  return best;
}

Measured product_rate(CudaBackend& backend, DType type) {
  Measured best{0, 0};
  for (int64_t n = kLeastProductSize; n <= kProductSize; n *= 4) {
    const auto bytes = static_cast<size_t>(n * n) * size_of(type);
    if (4 * static_cast<int64_t>(bytes) > backend.room()->available) break;
    const Memory x = filled(backend, type, bytes), w = filled(backend, type, bytes);
    const Memory y = backend.allocate(bytes), b = backend.allocate(static_cast<size_t>(n) * sizeof(float));
    const auto matmul =
        backend.plan(LinearPass::forward, {.rows = n, .in = n, .out = n, .dtype = type, .y_dtype = type});
    const Memory workspace = backend.allocate(matmul->workspace_bytes());
    const LinearOperands operands{.x = x.data(), .w = w.data(), .y = y.data(), .b = reinterpret_cast<float*>(b.data())};
    const double seconds = best_seconds(backend, [&] { matmul->launch(operands, workspace.data()); });
    const auto size = static_cast<double>(n);
    best = {n, 2 * size * size * size / seconds};
    if (seconds > kLong) break;
  }
  return best;
}

}  // namespace
}  // namespace ct::cuda

namespace ct {

DevicePeaks measure_cuda_peaks(Backend& backend, DType compute) {
  auto* gpu = dynamic_cast<cuda::CudaBackend*>(&backend);
  check(gpu != nullptr, "peaks of a backend without a GPU");
  const cuda::Measured copy = cuda::copy_rate(*gpu);
  DevicePeaks peaks{.flops = 0, .bytes = copy.rate, .text = {}};
  peaks.text = fmt::format("measured peaks of this GPU: {:.1f} GB/s copy of {:.1f} MiB", copy.rate / 1e9,
                           static_cast<double>(copy.size) / 0x1p20);
  try {
    const cuda::Measured product = cuda::product_rate(*gpu, compute);
    peaks.flops = product.rate;
    peaks.text +=
        fmt::format(", {:.0f} GFLOP/s {} product of {}^3", product.rate / 1e9, name_of(compute), product.size);
  } catch (const Error& e) {
    if (e.code() != ExitCode::usage) throw;
    peaks.text += str(", products not measured: ", e.what());
  }
  return peaks;
}

}  // namespace ct
