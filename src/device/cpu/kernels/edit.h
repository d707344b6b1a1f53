// One edit of each image of a batch, u8 to u8, in integers (graph/edit_draw.h describes the kinds).
//
// images and out u8 [n][channels][height][width], in different memory; one draw an image, `stride` apart; fill
// [channels]. Width is at most kMaxEditWidth. An edit takes 0.5 to 2 ns per level, a change of hue 4 ns.
#pragma once

#include <cstdint>

#include "graph/edit_draw.h"

namespace ct::cpu {

constexpr int64_t kMaxEditWidth = 1024;

struct EditArgs {
  int64_t n, channels, height, width;
  const uint8_t* images;
  const EditDraw* draws;
  int64_t stride;
  const uint8_t* fill;
  uint8_t* out;
};

void edit(const EditArgs& args);

}  // namespace ct::cpu
