// A grid of images in one picture, as from torchvision.utils.save_image(images, nrow=int(n ** 0.5), normalize=True,
// pad_value=1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ct {

struct ImageGrid {
  std::vector<uint8_t> pixels;  // [height][width][channels]
  int64_t width = 0;
};

/// `images`: f32 [N][channels][height][width] with N >= 1; the smallest of all values becomes black and the largest
/// white. Rows have floor(sqrt(N)) images, with two white pixels around each; a single image has no border.
ImageGrid image_grid(std::span<const float> images, int64_t channels, int64_t height, int64_t width);

}  // namespace ct
