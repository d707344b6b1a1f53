#include "device/cpu/linear.h"

#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/activation.h"
#include "device/cpu/kernels/linear.h"
#include "device/cpu/layers.h"

namespace ct::cpu {
namespace {

LinearTask task_of(LinearPass pass, const std::vector<Value>& values, ValueId x, ValueId w, ValueId b, ValueId y) {
  const Value &from = values[static_cast<size_t>(x)], &to = values[static_cast<size_t>(y)];
  return {.pass = pass,
          .rows = from.shape.rows(),
          .in = from.shape.columns(),
          .out = to.shape.columns(),
          .type = from.dtype,
          .x = x,
          .w = w,
          .b = b,
          .y = y,
          .activation = Activation::none};
}

/// Null: by own kernels.
std::unique_ptr<Kernel> by_library(const LinearTask& task) {
  return wants_library(task) ? prepare_linear_by_library(task) : nullptr;
}

LinearShape own_shape(const LinearTask& task) { return {task.rows, task.in, task.out}; }

}  // namespace

LinearTask linear_task(const Linear& op, const std::vector<Value>& values) {
  LinearTask task = task_of(LinearPass::forward, values, op.x, op.w, op.b, op.y);
  task.activation = op.activation;
  task.before = op.before;
  return task;
}
LinearTask linear_task(const LinearGradX& op, const std::vector<Value>& values) {
  return task_of(LinearPass::grad_x, values, op.dx, op.w, kNone, op.dy);
}
LinearTask linear_task(const LinearGradW& op, const std::vector<Value>& values) {
  return task_of(LinearPass::grad_w, values, op.x, op.dw, op.db, op.dy);
}

/// Few rows read weights once and as they lie; few weights stay in the first caches meanwhile.
bool wants_library(const LinearTask& task) {
  constexpr int64_t kFewRows = 16, kSomeRows = 1024, kFewWeights = 1 << 16;
  return task.rows > kFewRows && (task.rows > kSomeRows || task.in * task.out > kFewWeights);
}

std::unique_ptr<Kernel> prepare(const Linear& op, const Shapes& shape) {
  const LinearTask task = linear_task(op, shape.values());
  if (auto kernel = by_library(task)) return kernel;
  const auto no_bias = std::make_shared<const std::vector<float>>(op.b == kNone ? task.out : 0);
  return make_kernel([=, n = shape(op.y).stored()](const Operands& at, float*) {
    float *y = at.f32(op.y), *sums = op.before == kNone ? y : at.f32(op.before);
    const LinearArgs args{.shape = own_shape(task),
                          .x = at.f32(op.x),
                          .w = at.f32(op.w),
                          .b = op.b == kNone ? no_bias->data() : at.f32(op.b),
                          .y = sums,
                          .relu = op.activation == Activation::relu};
    return [=, keep = no_bias, kind = op.activation] {
      linear(args);
      if (!is_fused(kind)) activate(kind, sums, y, n);
    };
  });
}

std::unique_ptr<Kernel> prepare(const LinearGradX& op, const Shapes& shape) {
  const LinearTask task = linear_task(op, shape.values());
  if (auto kernel = by_library(task)) return kernel;
  return one_call(linear_grad_input, op, {.shape = own_shape(task)});
}

std::unique_ptr<Kernel> prepare(const LinearGradW& op, const Shapes& shape) {
  const LinearTask task = linear_task(op, shape.values());
  if (auto kernel = by_library(task)) return kernel;
  const size_t unwanted = op.db == kNone ? static_cast<size_t>(task.out) * sizeof(float) : 0;
  return make_kernel(unwanted, [=](const Operands& at, float* workspace) {
    float* db = op.db == kNone ? workspace : at.f32(op.db);
    const LinearGradWArgs args{own_shape(task), at.f32(op.x), at.f32(op.dy), at.f32(op.dw), db};
    return [=] { linear_grad_weights(args); };
  });
}

}  // namespace ct::cpu
