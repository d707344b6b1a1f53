// A set of encoded pictures in memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/pictures/encode.h"
#include "data/pictures/picture_set.h"

namespace ct {

struct MemoryPicture {
  std::string name;
  int label;
  std::vector<std::byte> file;
};

class MemoryPictures final : public PictureSet {
 public:
  MemoryPictures(std::vector<std::string> class_names, std::vector<MemoryPicture> pictures)
      : PictureSet("pictures in memory", PictureTransform{.size = 8, .resize = 8}, OnCorrupt::error),
        pictures_(std::move(pictures)) {
    class_names_ = std::move(class_names);
    for (const MemoryPicture& picture : pictures_) labels_.push_back(static_cast<uint16_t>(picture.label));
  }
  uint32_t fingerprint() const override { return 0; }
  std::span<const std::byte> bytes(int64_t i, std::vector<std::byte>&) const override {
    return pictures_[static_cast<size_t>(i)].file;
  }
  std::string picture_name(int64_t i) const override { return pictures_[static_cast<size_t>(i)].name; }

 private:
  std::vector<MemoryPicture> pictures_;
};

/// A smooth picture, planar, of one or three channels; `number` makes it another one.
inline std::vector<uint8_t> smooth(int channels, int width, int height, int number) {
  std::vector<uint8_t> planar;
  for (int c = 0; c < channels; ++c)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        planar.push_back(static_cast<uint8_t>(30 * c + 90 * x / width + 40 * y / height + 13 * number % 40));
  return planar;
}

inline std::vector<std::byte> png_file(int width, int height, int number) {
  return encode_png(smooth(3, width, height, number), 3, width, height);
}

}  // namespace ct
