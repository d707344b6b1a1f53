// One edit of each image of a batch, u8 to u8: places and colours, in whole numbers only, so that every device gives
// the same pixels.
#pragma once

#include "graph/edit_draw.h"
#include "launch.h"

namespace ct::kernels {

/// All pointers are to device memory; images and out are not the same.
struct EditArgs {
  int64_t n, channels, height, width;
  int64_t stride;         // draws from one image's to the next one's
  const uint8_t* images;  // [n][channels][height][width]
  const EditDraw* draws;  // [n][stride], of which the first counts
  const uint8_t* fill;    // [channels]
  uint8_t* out;           // like images
};

/// Runs in the stream, a block an image. Moves 2*n*C*H*W bytes (contrast, auto_contrast and equalize 3) and 32*n of
/// draws. Atomics count pixels in shared memory: whole numbers, whose order does not matter. cudaErrorInvalidValue: a
/// negative size, images wider or higher than kMaxEditSide, or of 2^29 elements or more.
cudaError_t edit(const EditArgs& args, cudaStream_t stream);

constexpr int64_t kMaxEditSide = 2048;

}  // namespace ct::kernels
