#include "kernels/muon.h"

#include <array>
#include <span>
#include <variant>
#include <vector>

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "device/newton_schulz.h"
#include "kernels/optimizer.h"
#include "kernels/orthogonalize.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

k::MuonMatrix matrix_of(const NewtonSchulzArgs& a) {
  return {.rows = a.rows,
          .columns = a.columns,
          .x_stride = a.x_stride,
          .left_stride = a.left_stride,
          .x = a.x,
          .left = a.left};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const MuonMomentum& op, const Context& in) {
  std::vector<int64_t> sizes;
  for (const MuonMomentum::Slice& s : op.slices) sizes.push_back(in.shape(s.grads).numel());
  return make_plain_kernel(in.label(), [op, sizes = std::move(sizes), stream = in.stream()](const Operands& at) {
    std::vector<k::MuonMomentumSlice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i)
      slices.push_back({.grads = at.f32(op.slices[i].grads),
                        .momentum_buffer = at.f32(op.slices[i].momentum_buffer),
                        .n = sizes[i]});
    return [op, stream, slices = std::move(slices), scalars = at.at<const StepScalars>(op.scalars)] {
      CT_CUDA(k::muon_momentum({.slices = slices.data(),
                                .slice_count = static_cast<int>(slices.size()),
                                .scalars = scalars,
                                .momentum = op.momentum,
                                .nesterov = op.nesterov},
                               stream));
    };
  });
}

std::unique_ptr<Kernel> prepare_all(std::span<const ComputeOp* const> ops, const Context& in) {
  std::vector<ValueId> values;
  std::vector<k::OrthogonalizeMatrix> matrices;
  for (const ComputeOp* of : ops) {
    const auto& op = std::get<Orthogonalize>(*of);
    const Shape& shape = in.shape(op.left);
    values.push_back(op.x);
    matrices.push_back({.x = nullptr,
                        .rows = static_cast<int>(shape[0]),
                        .columns = static_cast<int>(shape[1]),
                        .stride = static_cast<int>(op.stride),
                        .scale = static_cast<float>(op.scale)});
  }
  const size_t bytes = k::orthogonalize_workspace_bytes(matrices.data(), static_cast<int>(matrices.size()));
  const auto bind = [op = std::get<Orthogonalize>(*ops.front()), values, unbound = matrices, stream = in.stream()](
                        const Operands& at, std::byte* workspace) {
    std::vector<k::OrthogonalizeMatrix> matrices = unbound;
    for (size_t i = 0; i < matrices.size(); ++i) matrices[i].x = at.f32(values[i]);
    return [=] {
      const auto [a, b, c] = op.coefficients;
      CT_CUDA(k::orthogonalize({.matrices = matrices.data(),
                                .count = static_cast<int>(matrices.size()),
                                .steps = op.steps,
                                .a = static_cast<float>(a),
                                .b = static_cast<float>(b),
                                .c = static_cast<float>(c),
                                .eps = op.eps,
                                .workspace = workspace},
                               stream));
    };
  };
  return std::make_unique<CudaKernel<decltype(bind)>>(in.label(), bytes, bind);
}

std::unique_ptr<Kernel> prepare(const Orthogonalize& op, const Context& in) {
  const Shape &left = in.shape(op.left), &gram = in.shape(op.gram);
  check(in.shape(op.x).numel() == left[0] * op.stride, "a matrix whose size differs from its scratch's");
  if (op.between == DType::bf16) {
    const ComputeOp alone = op;
    return prepare_all(std::array{&alone}, in);
  }
  std::vector<std::unique_ptr<Kernel>> products;
  for (const ComputeOp& product : products_of(op, left))
    products.push_back(std::visit([&](const auto& kind) { return prepare(kind, in); }, product));
  const cudaStream_t stream = in.stream();
  NewtonSchulzSteps steps{.workspace_bytes = k::kMuonWorkspaceBytes,
                          .begin =
                              [stream, eps = op.eps](const NewtonSchulzArgs& a, std::byte* workspace) {
                                CT_CUDA(k::muon_begin(matrix_of(a), eps, reinterpret_cast<double*>(workspace), stream));
                              },
                          .scaled_sum =
                              [stream](float a, const float* from, float b, float* to, int64_t n) {
                                CT_CUDA(k::scaled_sum({.a = a, .from = from, .b = b, .to = to, .n = n}, stream));
                              },
                          .end = [stream, scale = static_cast<float>(op.scale)](
                                     const NewtonSchulzArgs& a) { CT_CUDA(k::muon_end(matrix_of(a), scale, stream)); }};
  return std::make_unique<NewtonSchulz>(op, left, gram, std::move(products), std::move(steps));
}

}  // namespace ct::cuda
