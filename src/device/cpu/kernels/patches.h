// Patches of planar images as tokens (ops.h's Patches): pixels are only moved, so that elements are f32 or any type of
// two bytes (uint16_t).
//
//   y[n][t][(row, column), (copy, channel)] = image n, channel, at that pixel of patch t, shifted by copy
//
// Copy 0 is the image itself. With a shift there are four more copies, moved right, left, down and up by `shift`
// pixels. Pixels outside the image are 0. A token's row is padded to 16 elements with zeros. Reads c * h * w elements
// per image, with a shift most of them five times, and writes one token per patch.
#pragma once

#include <cstdint>

namespace ct::cpu {

struct PatchesShape {
  int64_t n, channels, height, width, patch, shift;  // patch divides height and width
};
void patches(const PatchesShape& shape, const float* images, float* y);
void patches(const PatchesShape& shape, const uint16_t* images, uint16_t* y);

}  // namespace ct::cpu
