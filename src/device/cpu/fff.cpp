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
  const Shape x = shape(op.x);
  const int64_t in = x.columns(), out = shape(op.y).columns();
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel(fff_workspace_bytes(op.trees, in, out, sizeof(T)),
                       [op, rows = x.rows(), in, out](const Operands& at, float* workspace) {
                         const FffArgs<T> args{.trees = op.trees,
                                               .rows = rows,
                                               .in = in,
                                               .out = out,
                                               .x = at.at<T>(op.x),
                                               .w_in = at.at<T>(op.w_in),
                                               .b_in = at.f32(op.b_in),
                                               .w_out = at.at<T>(op.w_out),
                                               .y = at.at<T>(op.y),
                                               .workspace = reinterpret_cast<std::byte*>(workspace)};
                         return [args] { fff(args); };
                       });
  });
}

}  // namespace ct::cpu
