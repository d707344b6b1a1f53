#include "kernels/tree_sum.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

namespace ct::cuda {

namespace k = kernels;

std::unique_ptr<Kernel> prepare(const TreePush& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, n = in.shape(op.leaf).stored(), stream = in.stream()](const Operands& at) {
    std::vector<float*> levels;
    for (ValueId id : op.levels) levels.push_back(at.f32(id));
    return [=, leaf = at.f32(op.leaf), counter = at.i32(op.counter), last = op.last] {
      CT_CUDA(k::tree_push({.values = leaf,
                            .counter = counter,
                            .last = last,
                            .levels = levels.data(),
                            .level_count = static_cast<int>(levels.size()),
                            .out = leaf,
                            .n = n},
                           stream));
      CT_CUDA(k::count_leaf(counter, last, stream));
    };
  });
}

}  // namespace ct::cuda
