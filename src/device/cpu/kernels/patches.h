// Patches of planar images as tokens (ops.h's Patches): pixels are moved, never changed, so elements are f32 or, as
// uint16_t, any of two bytes.
//
//   y[n][t][(row, column), (copy, channel)] = image n, channel, at that pixel of patch t, moved as copy says
//
// Copy 0 is the image itself; with a shift there are four more, moved right, left, down and up by as many pixels. What
// lies outside the image is 0. A token's row is padded to 16 elements with zeros. Reads c*h*w elements an image, some
// of them five times, and writes as many tokens as it has patches.
#pragma once

#include <cstdint>

namespace ct::cpu {

struct PatchesShape {
  int64_t n, channels, height, width, patch, shift;  // patch divides height and width
};
void patches(const PatchesShape& shape, const float* images, float* y);
void patches(const PatchesShape& shape, const uint16_t* images, uint16_t* y);

}  // namespace ct::cpu
