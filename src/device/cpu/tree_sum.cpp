#include "device/cpu/kernels/tree_sum.h"

#include <bit>

#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"

namespace ct::cpu {

/// A leaf merges with the levels that the counter's trailing ones name and becomes the next level; the last one merges
/// with every level that is left, lowest first, which is what merging from the right means. A single level is either
/// that of two leaves or holds the sum so far.
std::unique_ptr<Kernel> prepare(const TreePush& op, const Shapes& shape) {
  return make_kernel([op, n = shape(op.leaf).stored()](const Operands& at, float*) {
    std::vector<float*> levels;
    for (ValueId id : op.levels) levels.push_back(at.f32(id));
    return [=, leaf = at.f32(op.leaf), counter = at.i32(op.counter),
            merged = std::vector<const float*>(levels.size())]() mutable {
      const unsigned index = static_cast<unsigned>(*counter);
      const bool running = levels.size() == 1 && index > 0;
      const int ones = running ? 0 : std::countr_one(index);
      size_t count = 0;
      for (size_t k = 0; k < levels.size(); ++k) {
        const bool full = running || (index >> k & 1) != 0;
        if (full && (op.last || running || static_cast<int>(k) < ones)) merged[count++] = levels[k];
      }
      float* out = op.last ? leaf : levels[static_cast<size_t>(ones)];
      tree_add(leaf, std::span(merged).first(count), out, n);
      *counter = op.last ? 0 : *counter + 1;
    };
  });
}

}  // namespace ct::cpu
