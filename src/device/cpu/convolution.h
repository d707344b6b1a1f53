// Convolutions of any shape: by oneDNN where it is installed (onednn.cpp, onednn_product.cpp) and by Winograd's
// algorithm, else by our own plain kernels (no_onednn.cpp). convolution_algorithms.h chooses among the
// library's algorithms.
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

/// What is computed from what: y from x, w and b; dx from dy and w; dw and db from x and dy.
enum class ConvPass : uint8_t { forward, grad_x, grad_w };

/// One pass of a convolution over operands in their places.
struct ConvTask {
  ConvPass pass;
  ConvDims dims;
  DType type;                            // of all but b, db and dw, which are f32
  ValueId image, weights, result, bias;  // x or dx, w or dw, y or dy, b or db (kNone: none)
};
ConvTask conv_task(const Conv2d& op, const std::vector<Value>& values);
ConvTask conv_task(const Conv2dGradX& op, const std::vector<Value>& values);
ConvTask conv_task(const Conv2dGradW& op, const std::vector<Value>& values);

/// How a pass can be computed. direct: the library's direct algorithm, on activations in the program's own order;
/// blocked: the same in the order that the library likes best, into which they are brought and back; winograd: our own
/// kernels of Winograd's algorithm; product: patches of images, unfolded, times the weights, as matrices.
enum class ConvAlgorithm : uint8_t { direct, blocked, winograd, product };
inline constexpr ConvAlgorithm kConvAlgorithms[] = {ConvAlgorithm::direct, ConvAlgorithm::blocked,
                                                    ConvAlgorithm::winograd, ConvAlgorithm::product};
std::string_view name_of(ConvAlgorithm algorithm);

/// Null where a convolution cannot be computed by this algorithm, or only by the library's reference code, which is a
/// thousand times slower. With the library there is always the product, without it the direct algorithm, by our own
/// code.
std::unique_ptr<Kernel> prepare_convolution(const ConvTask& task, ConvAlgorithm algorithm);
/// Likewise, of the library's algorithms.
std::unique_ptr<Kernel> prepare_by_library(const ConvTask& task, ConvAlgorithm algorithm);

/// "oneDNN 2.6.3", or nothing.
std::string convolution_library();
/// Why convolutions do not run in bf16 here; empty: they do.
std::string convolution_bf16_problem();
/// What multiplies in bf16 here.
enum class Bf16Unit : uint8_t { none, avx512, amx };
Bf16Unit bf16_unit();
/// Has the library kernels for AVX-512 here?
bool convolution_has_avx512();
/// Holds the library to one thread in the calling thread: its weight gradients depend on the number.
void convolution_enter_thread();

}  // namespace ct::cpu
