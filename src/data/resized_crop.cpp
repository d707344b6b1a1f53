#include "data/resized_crop.h"

#include <algorithm>
#include <cmath>

#include "base/rounded.h"

namespace ct {

Window random_window(const RandomResizedCrop& crop, PictureSize picture, Random& random) {
  const auto& [low, high] = crop.ratio;
  const double area = static_cast<double>(picture.width) * picture.height;
  constexpr int kAttempts = 10;
  for (int i = 0; i < kAttempts; ++i) {
    const double share = crop.scale[0] + random.uniform() * (crop.scale[1] - crop.scale[0]);
    const double ratio = std::exp(std::log(low) + random.uniform() * (std::log(high) - std::log(low)));
    const int width = rounded(std::sqrt(area * share * ratio)), height = rounded(std::sqrt(area * share / ratio));
    if (width < 1 || width > picture.width || height < 1 || height > picture.height) continue;
    const auto y = random.below(static_cast<uint32_t>(picture.height - height + 1));
    const auto x = random.below(static_cast<uint32_t>(picture.width - width + 1));
    return {static_cast<int>(x), static_cast<int>(y), width, height};
  }
  const double ratio = static_cast<double>(picture.width) / picture.height;
  int width = picture.width, height = picture.height;
  if (ratio < low) height = std::clamp(rounded(width / low), 1, height);
  if (ratio > high) width = std::clamp(rounded(height * high), 1, width);
  return {(picture.width - width) / 2, (picture.height - height) / 2, width, height};
}

}  // namespace ct
