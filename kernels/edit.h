// One edit of each image of a batch, u8 to u8. It changes positions or colours in integer arithmetic, so every device
// computes the same pixels.
#pragma once

#include "graph/edit_draw.h"
#include "launch.h"

namespace ct::kernels {

/// All pointers are to device memory; images and out must be different buffers.
struct EditArgs {
  int64_t n, channels, height, width;
  int64_t stride;         // draws between the first draws of adjacent images
  int64_t count;          // images of the data set
  const uint8_t* images;  // [count][channels][height][width]
  const int32_t* index;   // [n], image numbers in the data set; null: image i is number i
  const EditDraw* draws;  // [n][stride]; the kernel reads the first of each row
  const uint8_t* fill;    // [channels]
  uint8_t* out;           // [n][channels][height][width]
};

/// Runs in the stream, one block per image. Moves 2*n*C*H*W bytes (contrast, auto_contrast and equalize: 3*n*C*H*W) and
/// 32*n of draws. Atomics count pixels in shared memory; integer sums do not depend on their order.
/// An image whose number is not in [0, count) becomes black and is not read.
/// cudaErrorInvalidValue: a negative size, images wider or higher than kMaxEditSide, or of 2^29 elements or more.
cudaError_t edit(const EditArgs& args, cudaStream_t stream);

constexpr int64_t kMaxEditSide = 2048;

}  // namespace ct::kernels
