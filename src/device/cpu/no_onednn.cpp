// Convolution without oneDNN: our own plain kernels, which are one way, the direct one.
#include "device/cpu/convolution.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/plain.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare_by_library(const ConvTask& task, ConvWay way) {
  if (way != ConvWay::direct) return nullptr;
  const ConvDims& d = task.dims;
  const ConvShape s{.n = d.n,
                    .in_channels = d.in_channels,
                    .height = d.in_h,
                    .width = d.in_w,
                    .out_channels = d.out_channels,
                    .kernel = d.kernel,
                    .stride = d.stride,
                    .pad = d.pad,
                    .planar = d.planar};
  return make_kernel(conv2d_workspace(s) * sizeof(float),
                     [=](const Operands& at, float* workspace) -> std::function<void()> {
                       float *image = at.f32(task.image), *w = at.f32(task.weights), *result = at.f32(task.result),
                             *bias = at.f32(task.bias);
                       switch (task.pass) {
                         case ConvPass::forward:
                           return [=] { conv2d({s, image, w, bias, result, workspace}); };
                         case ConvPass::grad_w:
                           return [=] { conv2d_grad_weights({s, image, result, w, bias, workspace}); };
                         case ConvPass::grad_x:
                           break;
                       }
                       return [=] { conv2d_grad_input({s, w, result, image}); };
                     });
}

std::string convolution_library() { return ""; }
Bf16Unit bf16_unit() { return Bf16Unit::none; }
std::string convolution_bf16_problem() { return "bf16 needs a build with oneDNN"; }
bool convolution_has_avx512() { return false; }
void convolution_enter_thread() {}

}  // namespace ct::cpu
