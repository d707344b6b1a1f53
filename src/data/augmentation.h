// What happens to a sample between its data set and the model. Steps that need it as it was stored, before it has its
// size (decoding, resizing), run on the host, in DataSet::read(); steps that move or change pixels of a sample of the
// final size are drawn here and run on the device, in the augment operation.
//
// Every draw is keyed by (seed, epoch, image, place in the list), whoever asks.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/choice.h"
#include "base/random.h"

namespace ct {

/// The key of the draws that a sample takes.
struct SampleKey {
  uint64_t seed = 0;
  int64_t epoch = kEvaluation;
  static constexpr int64_t kEvaluation = -1;  // nothing is drawn
};

/// The stream of numbers of one place in the list; place 0 is shared by the steps on the device, which draw in turn.
/// The steps on the host have places of their own, which are part of every result.
inline constexpr uint32_t kDevicePlace = 0, kResizedCropPlace = 1, kReplacementPlace = 2;
inline Random draws_of(const SampleKey& key, uint32_t image, uint32_t place) {
  return Random(key.seed, Purpose::augment, static_cast<uint64_t>(key.epoch) << 32 | image, place);
}

/// A random box of a picture, which becomes the sample: torchvision's RandomResizedCrop (data/pictures/transform.h).
struct ResizedCrop {
  std::array<double, 2> scale = {0.08, 1};        // share of the picture's area, from and to
  std::array<double, 2> ratio = {0.75, 4.0 / 3};  // of width to height, from and to
};

struct AugmentStep {
  enum Kind : uint8_t { random_crop, flip, random_resized_crop } kind;
  int64_t padding = 4;  // random_crop: so many black pixels are added on each side, then it is cut to its old size
  double p = 0.5;       // flip: probability of mirroring left and right
  ResizedCrop resized_crop = {};  // random_resized_crop: on the host, before all others
};
constexpr auto words_of(AugmentStep::Kind) {
  return std::to_array<std::string_view>({"random_crop", "flip", "random_resized_crop"});
}

/// Output pixel (y, x) is input pixel (y + dy, x' + dx), x' = flip ? width - 1 - x : x; black outside the image.
struct Draw {
  int32_t dy = 0, dx = 0, flip = 0, unused = 0;
};
static_assert(sizeof(Draw) == 16);

/// What the device does to one image. Each crop moves by -padding..padding in both directions, uniformly (torchvision's
/// RandomCrop(side, padding)). Several crops add up, as if padding never were cut off in between, and several flips
/// cancel out; a crop after a flip moves the mirrored image.
inline Draw draw_augmentation(std::span<const AugmentStep> steps, const SampleKey& key, uint32_t image) {
  Draw draw;
  if (steps.empty() || key.epoch == SampleKey::kEvaluation) return draw;
  Random random = draws_of(key, image, kDevicePlace);
  for (const AugmentStep& step : steps) {
    if (step.kind == AugmentStep::flip) {
      draw.flip ^= random.uniform() < step.p;
    } else if (step.kind == AugmentStep::random_crop) {
      const auto padding = static_cast<int>(step.padding);
      const int dy = static_cast<int>(random.below(2 * padding + 1)) - padding;
      const int dx = static_cast<int>(random.below(2 * padding + 1)) - padding;
      draw.dy += dy;
      draw.dx += draw.flip ? -dx : dx;
    }
  }
  return draw;
}

}  // namespace ct
