#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/grad_norm.h"
#include "device/cpu/kernels/optimizer.h"
#include "device/cpu/layers.h"
#include "device/cpu/linear.h"
#include "device/newton_schulz.h"
#include "plan/step_scalars.h"

namespace ct::cpu {
namespace {

/// Of all of x, its pads among it.
double norm_of(const float* x, int64_t n) {
  double total = 0;
  for (int64_t at = 0; at < n; at += kSquareChunk) {
    double sum = 0;
    sum_of_squares(x + at, std::min(kSquareChunk, n - at), &sum);
    total += sum;
  }
  return std::sqrt(total);
}

void begin(const NewtonSchulzArgs& a, double eps) {
  const auto share = static_cast<float>(1 / std::max(norm_of(a.x, a.rows * a.x_stride), eps));
  for (int64_t row = 0; row < a.rows; ++row) {
    const float* from = a.x + row * a.x_stride;
    float* to = a.left + row * a.left_stride;
    for (int64_t i = 0; i < a.columns; ++i) to[i] = share * from[i];
    std::fill(to + a.columns, to + a.left_stride, 0.0f);
  }
}

void end(const NewtonSchulzArgs& a, float scale) {
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t i = 0; i < a.columns; ++i) a.x[row * a.x_stride + i] = scale * a.left[row * a.left_stride + i];
}

/// In bf16 if that is faster here and the iteration may round.
template <class Product>
std::unique_ptr<Kernel> prepare_of_iteration(const Product& product, DType between, const Shapes& shape) {
  if constexpr (requires { linear_task(product, shape.values()); })
    if (const LinearTask task = linear_task(product, shape.values()); between == DType::bf16 && wants_library(task))
      if (auto kernel = prepare_rounded_by_library(task)) return kernel;
  return prepare(product, shape);
}

}  // namespace

std::unique_ptr<Kernel> prepare(const MuonMomentum& op, const Shapes& shape) {
  std::vector<int64_t> sizes;
  for (const MuonMomentum::Slice& s : op.slices) sizes.push_back(shape(s.grads).numel());
  return make_kernel([op, sizes = std::move(sizes)](const Operands& at, float*) {
    std::vector<MuonMomentumArgs> slices;
    for (size_t i = 0; i < op.slices.size(); ++i)
      slices.push_back({.n = sizes[i],
                        .grads = at.f32(op.slices[i].grads),
                        .momentum_buffer = at.f32(op.slices[i].momentum_buffer),
                        .gradient_scale = 1,
                        .rest = static_cast<float>(1 - op.momentum),
                        .nesterov = op.nesterov});
    return [slices = std::move(slices), s = at.at<const StepScalars>(op.scalars)]() mutable {
      if (s->skip) return;
      for (MuonMomentumArgs& args : slices) {
        args.gradient_scale = static_cast<float>(s->grad_scale);
        muon_momentum(args);
      }
    };
  });
}

std::unique_ptr<Kernel> prepare(const Orthogonalize& op, const Shapes& shape) {
  const Shape &left = shape(op.left), &gram = shape(op.gram);
  check(shape(op.x).numel() == left[0] * op.stride, "a matrix whose size differs from its scratch's");
  std::vector<std::unique_ptr<Kernel>> products;
  for (const ComputeOp& product : products_of(op, left))
    products.push_back(
        std::visit([&](const auto& kind) { return prepare_of_iteration(kind, op.between, shape); }, product));
  return std::make_unique<NewtonSchulz>(
      op, left, gram, std::move(products),
      NewtonSchulzSteps{.begin = [eps = op.eps](const NewtonSchulzArgs& a, std::byte*) { begin(a, eps); },
                        .scaled_sum = scaled_sum,
                        .end = [scale = static_cast<float>(op.scale)](const NewtonSchulzArgs& a) { end(a, scale); }});
}

}  // namespace ct::cpu
