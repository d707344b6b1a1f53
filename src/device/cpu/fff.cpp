#include "device/cpu/kernels/fff.h"

#include "device/cpu/by_type.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare(const TreeGelu& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, rows = shape(op.x).rows()](const Operands& at, float*) {
      return [=, trees = op.trees, x = at.at<T>(op.x), y = at.at<T>(op.y)] { tree_gelu(trees, rows, x, y); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const TreeGeluGrad& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, rows = shape(op.x).rows()](const Operands& at, float*) {
      return [=, trees = op.trees, x = at.at<T>(op.x), dy = at.at<T>(op.dy), dx = at.at<T>(op.dx)] {
        tree_gelu_grad(trees, rows, x, dy, dx);
      };
    });
  });
}

std::unique_ptr<Kernel> prepare(const Fff& op, const Shapes& shape) {
  const Shape& x = shape(op.x);
  const int64_t in = x.columns(), out = shape(op.y).columns();
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<FffArgs<T>>(fff, op, {.trees = op.trees, .rows = x.rows(), .in = in, .out = out},
                                fff_workspace_bytes(op.trees, in, out, sizeof(T)));
  });
}

}  // namespace ct::cpu
