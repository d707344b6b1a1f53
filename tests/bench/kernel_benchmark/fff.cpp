#include "fff.h"

#include "bench.h"

namespace ct::kernels {

/// A tree of depth 7 for the tokens of a small transformer.
void Bench::fast_feed_forwards() {
  const FffTrees trees{.count = 1, .depth = 7, .fanout = 2};
  const int64_t stride = 256, visited = trees.depth + 1;
  for (const Type type : {Type::f32, Type::bf16}) {
    const int64_t e = size_of(type), rows = shrunk((int64_t{256} << 20) / e / stride), n = rows * stride;
    const std::string shape = shape_of(rows, trees.units());
    const TreeGeluArgs forward{.type = type,
                               .rows = rows,
                               .stride = stride,
                               .trees = trees,
                               .x = arena_.take(type, n),
                               .y = arena_.take(type, n)};
    large("tree_gelu", name_of(type), shape, (n + 2 * rows * visited) * e, 0,
          [=](cudaStream_t s) { return tree_gelu(forward, s); });
    const TreeGeluGradArgs grad{.type = type,
                                .rows = rows,
                                .stride = stride,
                                .trees = trees,
                                .x = arena_.take(type, n),
                                .dy = arena_.take(type, n),
                                .dx = arena_.take(type, n)};
    large("tree_gelu_grad", name_of(type), shape, (n + 3 * rows * visited) * e, 0,
          [=](cudaStream_t s) { return tree_gelu_grad(grad, s); });
  }
}

}  // namespace ct::kernels
