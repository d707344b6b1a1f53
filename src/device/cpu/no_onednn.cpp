// Convolution without oneDNN: our own plain kernels.
#include "device/cpu/convolution.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/plain.h"

namespace ct::cpu {
namespace {

ConvShape conv_shape(const ConvDims& d) {
  return {.n = d.n,
          .in_channels = d.in_channels,
          .height = d.in_h,
          .width = d.in_w,
          .out_channels = d.out_channels,
          .kernel = d.kernel,
          .stride = d.stride,
          .pad = d.pad,
          .planar = d.planar};
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv2d(const Conv2d& op, const std::vector<Value>& values) {
  const auto shape = [&](ValueId id) { return values[static_cast<size_t>(id)].shape; };
  const ConvShape s = conv_shape(conv_dims(shape(op.x), shape(op.y), op.kernel, op.stride, op.pad, op.planar));
  return make_kernel(conv2d_workspace(s) * sizeof(float), [=](const Operands& at, float* workspace) {
    const ConvArgs args{s, at.f32(op.x), at.f32(op.w), at.f32(op.b), at.f32(op.y), workspace};
    return [=] { conv2d(args); };
  });
}

std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradW& op, const std::vector<Value>& values) {
  const auto shape = [&](ValueId id) { return values[static_cast<size_t>(id)].shape; };
  const ConvShape s = conv_shape(conv_dims(shape(op.x), shape(op.dy), op.kernel, op.stride, op.pad, op.planar));
  return make_kernel(conv2d_workspace(s) * sizeof(float), [=](const Operands& at, float* workspace) {
    const ConvGradWArgs args{s, at.f32(op.x), at.f32(op.dy), at.f32(op.dw), at.f32(op.db), workspace};
    return [=] { conv2d_grad_weights(args); };
  });
}

std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradX& op, const std::vector<Value>& values) {
  const auto shape = [&](ValueId id) { return values[static_cast<size_t>(id)].shape; };
  const ConvShape s = conv_shape(conv_dims(shape(op.dx), shape(op.dy), op.kernel, op.stride, op.pad, /*planar=*/false));
  return make_kernel([=](const Operands& at, float*) {
    const ConvGradXArgs args{s, at.f32(op.w), at.f32(op.dy), at.f32(op.dx)};
    return [=] { conv2d_grad_input(args); };
  });
}

std::string convolution_library() { return ""; }
Bf16Unit bf16_unit() { return Bf16Unit::none; }
std::string convolution_bf16_problem() { return "bf16 needs a build with oneDNN"; }
void convolution_enter_thread() {}

}  // namespace ct::cpu
