// The two passes of resizing, vectorised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ct {

inline constexpr int kWeightBits = 22;  // behind the point of a weight

/// So many weights of a pixel resize_rows() takes: at least as many as it needs, the rest zero.
int padded_taps(int taps);
/// Bytes that it may read from where a pixel's weights begin, for nothing.
size_t bytes_read(int padded_taps);
/// Bytes of a row that it writes.
size_t narrow_row_bytes(size_t pixels);

/// Rows become narrower (or wider). What is written holds the red of four pixels, then their green, then their blue,
/// then the next four pixels'.
struct ResizeRows {
  std::span<const uint8_t* const> rows;  // interleaved
  std::span<const int> offsets;          // of each output pixel: the byte of a row at which its weights begin
  const int32_t* weights;                // `taps` of each
  int taps;                              // padded
  uint8_t* out;                          // narrow_row_bytes() each
};
void resize_rows(const ResizeRows& args);

/// One output row of what resize_rows() wrote.
struct BlendRows {
  const uint8_t* first;  // the first of as many rows as there are weights
  std::span<const int32_t> weights;
  size_t pixels;
  uint8_t* line;  // scratch of narrow_row_bytes()
  uint8_t* out;   // the row's red
  size_t plane;   // bytes from there to its green, and on to its blue
};
void blend_rows(const BlendRows& args);

}  // namespace ct
