// Encodes pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/pictures/picture.h"

namespace ct {

inline constexpr int kLongestJpeg = 65500;  // libjpeg's limit of width and height

/// Baseline JPEG as Pillow saves it: chroma at half the resolution (4:2:0), quality 1 to 100. Neither side may be
/// longer than kLongestJpeg.
std::vector<std::byte> encode_jpeg(const Picture& picture, int quality);

/// PNG of a planar sample with one channel (grey) or three: nothing is lost.
std::vector<std::byte> encode_png(std::span<const uint8_t> planar, int channels, int width, int height);

}  // namespace ct
