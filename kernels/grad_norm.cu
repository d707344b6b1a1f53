#include "chunk_square_sum.h"
#include "grad_norm.h"

namespace ct::kernels {
namespace {

/// One block per chunk.
__global__ void __launch_bounds__(kSquareThreads) square_sums_kernel(SquareSumsArgs args) {
  wait_for_previous();
  sum_squares(args, blockIdx.x);
}

}  // namespace

cudaError_t square_sums(const SquareSumsArgs& args, cudaStream_t stream) {
  const Grid grid{
      .blocks = static_cast<unsigned>(args.count), .threads = kSquareThreads, .shared_bytes = kSquareShared};
  return launch_early(square_sums_kernel, grid, stream, args);
}

}  // namespace ct::kernels
