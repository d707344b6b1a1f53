#include <algorithm>

#include "last_block.h"
#include "loss_rows.h"

namespace ct::kernels {
namespace {

constexpr int kResident = 2;              // blocks at a time, which leaves a thread 128 registers
constexpr int64_t kLossesPerBlock = 256;  // of spread_nan_kernel, which reads all of them in every block
/// Up to so many rows, the last block looks at all losses; more blocks would wait longer to count themselves than a
/// launch takes.
constexpr int64_t kFewRows = 2048;

/// Makes the gradient NaN if any loss is not finite: of the rows of block `block` of `blocks`, each of which looks at
/// all losses. Other blocks of the same kernel may have written them.
__device__ __forceinline__ void spread_nan(const SoftmaxCrossEntropyArgs& a, unsigned block, unsigned blocks) {
  const volatile float* losses = a.losses;
  bool broken = false;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < a.n; i += kLossWarps * kWarp) broken |= !isfinite(losses[i]);
  if (!any_of_block(broken)) return;
  for (int64_t n = static_cast<int64_t>(block) * kLossWarps + threadIdx.x / kWarp; n < a.n;
       n += static_cast<int64_t>(blocks) * kLossWarps)
    for (int64_t c = threadIdx.x % kWarp; c < a.classes; c += kWarp) a.dlogits[n * a.stride + c] = NAN;
}

/// A block makes its own rows NaN, and the last one all, if there are tickets.
template <int kHeld>
__global__ void __launch_bounds__(kLossWarps* kWarp, kResident) rows(SoftmaxCrossEntropyArgs a, unsigned* tickets) {
  wait_for_previous();
  loss_of_rows<kHeld>(a, static_cast<int64_t>(blockIdx.x) * kLossWarps);
  if (tickets != nullptr && is_last_block(tickets, gridDim.x)) spread_nan(a, 0, 1);
}

__global__ void __launch_bounds__(kLossWarps* kWarp) spread_nan_kernel(SoftmaxCrossEntropyArgs a) {
  spread_nan(a, blockIdx.x, gridDim.x);
}

}  // namespace

cudaError_t softmax_cross_entropy(const SoftmaxCrossEntropyArgs& a, cudaStream_t stream) {
  if (a.classes < 1 || a.classes > INT32_MAX - kWarp || a.stride < a.classes) return cudaErrorInvalidValue;
  Grid grid{dim3(static_cast<unsigned>(divide_up<int64_t>(a.n, kLossWarps))), dim3(kLossWarps * kWarp),
            kLossWarps * sizeof(int)};
  const auto kernel = a.classes <= 4 * kWarp ? rows<4> : a.classes <= 32 * kWarp ? rows<32> : rows<0>;
  const bool one_block = a.n <= kLossWarps;  // it has seen all losses
  unsigned* tickets = a.dlogits == nullptr || one_block || a.n > kFewRows ? nullptr : a.tickets;
  const cudaError_t error = launch_early(kernel, grid, stream, a, tickets);
  if (error != cudaSuccess || a.dlogits == nullptr || one_block || tickets != nullptr) return error;
  grid.blocks.x = static_cast<unsigned>(std::min<int64_t>(divide_up(a.n, kLossesPerBlock), 64));
  return launch(spread_nan_kernel, grid, stream, a);
}

}  // namespace ct::kernels
