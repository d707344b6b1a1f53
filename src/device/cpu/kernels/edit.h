// One edit of each image of a batch, u8 to u8, in integers (graph/edit_draw.h describes the kinds).
//
// out u8 [n][channels][height][width], in other memory than images, u8 [count][channels][height][width]; index i32 [n],
// numbers of images, or null: image i is number i; one draw an image, `stride` apart; fill [channels]. An image whose
// number is not in [0, count) becomes black. Width is at most kMaxEditWidth. An edit takes 0.5 to 2 ns per level, a
// change of hue 4 ns.
#pragma once

#include <cstdint>

#include "graph/edit_draw.h"

namespace ct::cpu {

constexpr int64_t kMaxEditWidth = 1024;

struct EditArgs {
  int64_t n, channels, height, width;
  int64_t count;
  const uint8_t* images;
  const int32_t* index;
  const EditDraw* draws;
  int64_t stride;
  const uint8_t* fill;
  uint8_t* out;
};

void edit(const EditArgs& args);

}  // namespace ct::cpu
