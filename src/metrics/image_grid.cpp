#include "metrics/image_grid.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ct {

ImageGrid image_grid(std::span<const float> images, int64_t channels, int64_t height, int64_t width) {
  const int64_t image = channels * height * width, count = static_cast<int64_t>(images.size()) / image;
  check(count > 0 && count * image == static_cast<int64_t>(images.size()), images.size(), " values for images of ",
        image);
  const auto [low, high] = std::ranges::minmax(images);
  constexpr float kLeastRange = 1e-5f;  // torchvision's
  const float range = std::max(high - low, kLeastRange);
  const int64_t in_row = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  const int64_t rows = (count + in_row - 1) / in_row, pad = count == 1 ? 0 : 2;
  ImageGrid grid{.width = in_row * (width + pad) + pad};
  grid.pixels.assign(static_cast<size_t>((rows * (height + pad) + pad) * grid.width * channels), 255);
  for (int64_t n = 0; n < count; ++n)
    for (int64_t channel = 0; channel < channels; ++channel)
      for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x) {
          const float value = images[static_cast<size_t>(((n * channels + channel) * height + y) * width + x)];
          const int64_t to_y = n / in_row * (height + pad) + pad + y, to_x = n % in_row * (width + pad) + pad + x;
          grid.pixels[static_cast<size_t>((to_y * grid.width + to_x) * channels + channel)] =
              static_cast<uint8_t>((value - low) / range * 255 + 0.5f);
        }
  return grid;
}

}  // namespace ct
