// The two passes of resizing, vectorised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ct {

inline constexpr int kWeightBits = 22;  // fractional bits of a weight

/// The number of weights for a pixel in resize_rows(): at least `taps`, the rest zero.
int padded_taps(int taps);
/// Bytes that it may read from the start of a pixel's weights on, including unused ones.
size_t bytes_read(int padded_taps);
/// Bytes of a row that it writes.
size_t narrow_row_bytes(size_t pixels);

/// Resizes rows in width. The output contains the red of four pixels, then their green, then their blue, then the same
/// for the next four pixels.
struct ResizeRows {
  std::span<const uint8_t* const> rows;  // interleaved
  std::span<const int> offsets;          // of each output pixel: the byte of a row at which its weights begin
  const int32_t* weights;                // `taps` of each
  int taps;                              // padded
  uint8_t* out;                          // narrow_row_bytes() each
};
void resize_rows(const ResizeRows& args);

/// Computes one output row from the results of resize_rows().
struct BlendRows {
  const uint8_t* first;  // the first row; there is one row for each weight
  std::span<const int32_t> weights;
  size_t pixels;
  uint8_t* line;  // scratch of narrow_row_bytes()
  uint8_t* out;   // the row's red
  size_t plane;   // bytes between the planes of red, green and blue
};
void blend_rows(const BlendRows& args);

}  // namespace ct
