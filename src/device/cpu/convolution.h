// Convolutions of any shape: by oneDNN, if it is installed (onednn.cpp, onednn_product.cpp), and by Winograd's
// algorithm, otherwise by plain kernels (no_onednn.cpp). convolution_algorithms.h selects the algorithm.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/backend.h"
#include "device/cpu/kernels/plain.h"

namespace ct::cpu {

inline ConvDims conv_dims(const Shape& x, const Shape& y, int kernel, int stride, int pad, bool planar) {
  return {.n = y[0],
          .in_h = planar ? x[2] : x[1],
          .in_w = planar ? x[3] : x[2],
          .in_channels = planar ? x[1] : x[3],
          .out_h = y[1],
          .out_w = y[2],
          .out_channels = y[3],
          .kernel = kernel,
          .stride = stride,
          .pad = pad,
          .planar = planar};
}

/// The pass: y from x, w and b; dx from dy and w; dw and db from x and dy.
enum class ConvPass : uint8_t { forward, grad_x, grad_w };

/// One pass of a convolution with its operands.
struct ConvTask {
  ConvPass pass;
  ConvDims dims;
  DType type;                            // of all operands except b, db and dw, which are f32
  ValueId image, weights, result, bias;  // x or dx, w or dw, y or dy, b or db (kNone: none)
};
ConvTask conv_task(const Conv2d& op, const std::vector<Value>& values);
ConvTask conv_task(const Conv2dGradX& op, const std::vector<Value>& values);
ConvTask conv_task(const Conv2dGradW& op, const std::vector<Value>& values);

/// The algorithms of a pass. direct: the library's direct algorithm on activations in the program's order; blocked: the
/// same in the library's preferred order, with reorders of inputs and outputs; winograd: own kernels of Winograd's
/// algorithm; product: unfolded patches of images times the weights, as a matrix product.
enum class ConvAlgorithm : uint8_t { direct, blocked, winograd, product };
inline constexpr ConvAlgorithm kConvAlgorithms[] = {ConvAlgorithm::direct, ConvAlgorithm::blocked,
                                                    ConvAlgorithm::winograd, ConvAlgorithm::product};
std::string_view name_of(ConvAlgorithm algorithm);

/// Null if this algorithm cannot compute the convolution, or only with the library's reference code, which is a
/// thousand times slower. With the library `product` is always available, without it `direct`, by own code.
std::unique_ptr<Kernel> prepare_convolution(const ConvTask& task, ConvAlgorithm algorithm);
/// The same for the library's algorithms.
std::unique_ptr<Kernel> prepare_by_library(const ConvTask& task, ConvAlgorithm algorithm);

/// "oneDNN 2.6.3", or nothing.
std::string convolution_library();
/// The reason why convolutions cannot run in bf16 on this machine; empty: they can.
std::string convolution_bf16_problem();
/// The unit that multiplies in bf16 on this machine.
enum class Bf16Unit : uint8_t { none, avx512, amx };
Bf16Unit bf16_unit();
/// Does the library have AVX-512 kernels for this machine?
bool convolution_has_avx512();
/// Limits the library to one thread in the calling thread, because its weight gradients depend on the number of
/// threads.
void convolution_enter_thread();

}  // namespace ct::cpu
