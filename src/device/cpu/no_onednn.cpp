// Convolution without oneDNN: our own plain kernels, which are one algorithm, the direct one. Linear layers have own
// ones, too.
#include "device/cpu/convolution.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/linear.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare_by_library(const ConvTask& task, ConvAlgorithm algorithm) {
  if (algorithm != ConvAlgorithm::direct) return nullptr;
  const ConvDims& d = task.dims;
  return make_kernel(conv2d_workspace(d) * sizeof(float),
                     [=](const Operands& at, float* workspace) -> std::function<void()> {
                       float *image = at.f32(task.image), *w = at.f32(task.weights), *result = at.f32(task.result),
                             *bias = at.f32(task.bias);
                       switch (task.pass) {
                         case ConvPass::forward:
                           return [=] { conv2d({d, image, w, bias, result, workspace}); };
                         case ConvPass::grad_w:
                           return [=] { conv2d_grad_weights({d, image, result, w, bias, workspace}); };
                         case ConvPass::grad_x:
                           break;
                       }
                       return [=] { conv2d_grad_input({d, w, result, image}); };
                     });
}

std::unique_ptr<Kernel> prepare_linear_by_library(const LinearTask&) { return nullptr; }
std::unique_ptr<Kernel> prepare_rounded_by_library(const LinearTask&) { return nullptr; }

std::string convolution_library() { return ""; }
Bf16Unit bf16_unit() { return Bf16Unit::none; }
std::string convolution_bf16_problem() { return "bf16 needs a build with oneDNN"; }
bool convolution_has_avx512() { return false; }
void convolution_enter_thread() {}

}  // namespace ct::cpu
