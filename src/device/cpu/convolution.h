// Convolutions of any shape: by oneDNN where it is installed (onednn.cpp), else by our own kernels (no_onednn.cpp).
#pragma once

#include <memory>
#include <string>

#include "device/backend.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare_conv2d(const Conv2d& op, const std::vector<Value>& values);
std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradW& op, const std::vector<Value>& values);
std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradX& op, const std::vector<Value>& values);

/// "oneDNN 2.6.3", or nothing.
std::string convolution_library();
/// Why convolutions do not run in bf16 here; empty: they do.
std::string convolution_bf16_problem();
/// What multiplies in bf16 here.
enum class Bf16Unit : uint8_t { none, avx512, amx };
Bf16Unit bf16_unit();
/// Holds the library to one thread in the calling thread: its weight gradients depend on the number.
void convolution_enter_thread();

/// Dimensions of a convolution; x is [n][in_channels][in_h][in_w] when planar, else [n][in_h][in_w][in_channels].
struct ConvDims {
  int64_t n, in_h, in_w, in_channels, out_h, out_w, out_channels, kernel, stride, pad;
  bool planar;
};
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

}  // namespace ct::cpu
