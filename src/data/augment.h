// Random crop and flip: what is drawn for an image. The pixels are moved by the augment operation.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"

namespace ct {

struct AugmentStep {
  enum Kind { random_crop, flip } kind;
  int padding = 0;  // random_crop: the image is padded by so many black pixels on each side, then cut to its old size
  double p = 0.5;   // flip: probability of mirroring left and right
};

/// Output pixel (y, x) is input pixel (y + dy, x' + dx), x' = flip ? width - 1 - x : x; black outside the image.
struct Draw {
  int32_t dy = 0, dx = 0, flip = 0, unused = 0;
};
static_assert(sizeof(Draw) == 16);

/// The draw of one image in one epoch, whoever asks. Each crop moves by -padding..padding in both directions, uniformly
/// (torchvision's RandomCrop(side, padding)). Several crops add up, as if padding never were cut off in between, and
/// several flips cancel out; a crop after a flip moves the mirrored image.
inline Draw draw_augmentation(std::span<const AugmentStep> steps, uint64_t seed, int64_t epoch, uint32_t image) {
  Draw draw;
  if (steps.empty()) return draw;
  Random random(seed, Purpose::augment, static_cast<uint64_t>(epoch) << 32 | image);
  for (const AugmentStep& step : steps) {
    if (step.kind == AugmentStep::flip) {
      draw.flip ^= random.uniform() < step.p;
    } else {
      const int dy = static_cast<int>(random.below(2 * step.padding + 1)) - step.padding;
      const int dx = static_cast<int>(random.below(2 * step.padding + 1)) - step.padding;
      draw.dy += dy;
      draw.dx += draw.flip ? -dx : dx;
    }
  }
  return draw;
}

}  // namespace ct
