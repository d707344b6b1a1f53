// Scalar reference of crop, flip and normalisation.
#pragma once

#include <cstdint>
#include <vector>

namespace ct::reference {

/// images [n][channels][height][width]; draws [n][4] = {dy, dx, flip, 0}; black outside the image.
inline std::vector<double> augment(int64_t n, int64_t channels, int64_t height, int64_t width,
                                   const std::vector<double>& images, const std::vector<double>& draws,
                                   const std::vector<float>& scale, const std::vector<float>& shift) {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x) {
          const int64_t from_y = y + static_cast<int64_t>(draws[4 * i]);
          const int64_t from_x = (draws[4 * i + 2] != 0 ? width - 1 - x : x) + static_cast<int64_t>(draws[4 * i + 1]);
          const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
          const double pixel = inside ? images[((i * channels + c) * height + from_y) * width + from_x] : 0;
          out.push_back(pixel * scale[c] + shift[c]);
        }
  return out;
}

}  // namespace ct::reference
