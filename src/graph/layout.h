// The layout of a parameter in memory, relative to PyTorch's order, which files, hashes and initial values use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace ct {

/// PyTorch's row-major tensor, seen with dimensions `dims`, has element (i, j, ...) stored at i*strides[0] +
/// j*strides[1] + ...; storage positions without an element are pads and contain zeros.
struct Layout {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  int64_t stored = 0;  // elements of storage, pads included

  static Layout vector(int64_t n);
  /// [out][in] with padded rows.
  static Layout matrix(int64_t out, int64_t in);
  /// [n][t][c] with padded rows, for values that are added to tokens, such as position embeddings.
  static Layout tokens(int64_t n, int64_t t, int64_t c);
  /// [out][channels*height*width] whose input was flattened from NHWC while PyTorch flattens NCHW.
  static Layout matrix_of_flattened(int64_t out, int64_t channels, int64_t height, int64_t width);
  /// PyTorch [out][in][k][k], stored [out][k][k][in].
  static Layout convolution(int64_t out, int64_t in, int64_t kernel);

  int64_t numel() const;
  /// The layout of n consecutive rows (dimension 0), which are contiguous here and in PyTorch's order.
  Layout rows(int64_t n) const;
  void to_torch(std::span<const float> storage, std::span<float> torch) const;
  /// Writes the storage, including the zeros of pads.
  void from_torch(std::span<const float> torch, std::span<float> storage) const;
};

}  // namespace ct
