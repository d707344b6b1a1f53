#include "device/cpu/kernels/grad_norm.h"

#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"
#include "plan/flat.h"

namespace ct::cpu {

static_assert(kChunk <= kSquareChunk);  // one sum a chunk

std::unique_ptr<Kernel> prepare(const SquareSums& op, const Shapes&) {
  return make_kernel([op](const Operands& at, float*) {
    return [op, grads = at.f32(op.grads), sums = at.at<double>(op.sums)] {
      for (const SquareSums::Chunk& c : op.chunks) sum_of_squares(grads + c.range.begin, c.range.size(), sums + c.sum);
    };
  });
}

}  // namespace ct::cpu
