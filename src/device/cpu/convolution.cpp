#include "device/cpu/convolution.h"

#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/winograd.h"

namespace ct::cpu {
namespace {

const Value& at(const std::vector<Value>& values, ValueId id) { return values[static_cast<size_t>(id)]; }

}  // namespace

ConvTask conv_task(const Conv2d& op, const std::vector<Value>& values) {
  const Value &x = at(values, op.x), &y = at(values, op.y);
  return {.pass = ConvPass::forward,
          .dims = conv_dims(x.shape, y.shape, op.kernel, op.stride, op.pad, op.planar),
          .type = x.dtype,
          .image = op.x,
          .weights = op.w,
          .result = op.y,
          .bias = op.b};
}

ConvTask conv_task(const Conv2dGradX& op, const std::vector<Value>& values) {
  const Value &dx = at(values, op.dx), &dy = at(values, op.dy);
  return {.pass = ConvPass::grad_x,
          .dims = conv_dims(dx.shape, dy.shape, op.kernel, op.stride, op.pad, /*planar=*/false),
          .type = dy.dtype,
          .image = op.dx,
          .weights = op.w,
          .result = op.dy,
          .bias = kNone};
}

ConvTask conv_task(const Conv2dGradW& op, const std::vector<Value>& values) {
  const Value &x = at(values, op.x), &dy = at(values, op.dy);
  return {.pass = ConvPass::grad_w,
          .dims = conv_dims(x.shape, dy.shape, op.kernel, op.stride, op.pad, op.planar),
          .type = x.dtype,
          .image = op.x,
          .weights = op.dw,
          .result = op.dy,
          .bias = op.db};
}

namespace {

/// Images and weights are of T; a gradient of weights and a bias are f32.
template <class T>
std::unique_ptr<Kernel> prepare_winograd(const ConvTask& task) {
  const ConvDims& d = task.dims;
  const bool fits = !d.planar && d.kernel == 3 && d.stride == 1 && d.pad <= 2 &&
                    d.in_channels % kWinogradChannels == 0 && d.out_channels % kWinogradChannels == 0;
  if (!fits || (task.pass == ConvPass::grad_w && task.bias != kNone)) return nullptr;
  WinogradShape s{d.n, d.in_h, d.in_w, d.in_channels, d.out_channels, d.pad};
  const auto floats = [](size_t n) { return n * sizeof(float); };
  switch (task.pass) {
    case ConvPass::forward:
      return make_kernel(floats(winograd_workspace(s)), [=](const Operands& at, float* workspace) {
        const WinogradArgs<T> args{s,
                                   at.at<T>(task.image),
                                   at.at<T>(task.weights),
                                   at.f32(task.bias),
                                   at.at<T>(task.result),
                                   workspace,
                                   /*rotated=*/false};
        return [=] { winograd(args); };
      });
    case ConvPass::grad_x:
      s = {d.n, d.out_h, d.out_w, d.out_channels, d.in_channels, 2 - d.pad};
      return make_kernel(floats(winograd_workspace(s)), [=](const Operands& at, float* workspace) {
        const WinogradArgs<T> args{s,
                                   at.at<T>(task.result),
                                   at.at<T>(task.weights),
                                   nullptr,
                                   at.at<T>(task.image),
                                   workspace,
                                   /*rotated=*/true};
        return [=] { winograd(args); };
      });
    case ConvPass::grad_w:
      break;
  }
  return make_kernel(floats(winograd_grad_weights_workspace(s)), [=](const Operands& at, float* workspace) {
    const WinogradGradWArgs<T> args{s, at.at<T>(task.image), at.at<T>(task.result), at.f32(task.weights), workspace};
    return [=] { winograd_grad_weights(args); };
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_convolution(const ConvTask& task, ConvAlgorithm algorithm) {
  if (algorithm != ConvAlgorithm::winograd) return prepare_by_library(task, algorithm);
  return task.type == DType::bf16 ? prepare_winograd<uint16_t>(task) : prepare_winograd<float>(task);
}

std::string_view name_of(ConvAlgorithm algorithm) {
  constexpr std::string_view kNames[] = {"direct", "blocked", "winograd", "product"};
  return kNames[static_cast<size_t>(algorithm)];
}

}  // namespace ct::cpu
