// The conversion of a picture's file to a sample: decoding and resizing.
//
// Training uses a random box (RandomResizedCrop), evaluation the centre of the resized picture (Resize, CenterCrop), by
// torchvision's rules. The device applies steps that move or change pixels of a sample of the final size
// (data/augmentation.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/random.h"
#include "data/augmentation.h"
#include "data/dataset.h"
#include "data/pictures/decode.h"

namespace ct {

/// The parameters of the conversion.
struct PictureTransform {
  int size = 224;                              // data.size: width and height of a sample
  int resize = 256;                            // data.resize: the shorter side of a picture before the centre crop
  std::optional<RandomResizedCrop> crop = {};  // of data.augment: in training, instead of Resize and CenterCrop
  bool exact = false;                          // data.exact: random crops are decoded in full resolution
  int64_t max_pixels = kMaxPixels;             // data.max_pixels
  bool grey = false;                           // one channel, by Pillow's convert("L")
  SampleShape shape() const { return {grey ? 1 : 3, size, size}; }
};

/// The box of RandomResizedCrop in a picture, or in a sample of the final size (augmentation.cpp), by torchvision's
/// rule: ten attempts with a share of the area (uniform) and a ratio of width to height (log-uniform), then the largest
/// central box with an allowed ratio.
Window random_window(const RandomResizedCrop& crop, PictureSize picture, Random& random);

/// Resize(shorter): the size of a whole picture when its shorter side is resized.
PictureSize resized_size(PictureSize picture, int shorter);
/// CenterCrop(side).
Window center_window(PictureSize picture, int side);

/// Writes the sample of a picture: u8, planar. `key` and `image` key the draws.
void make_sample(std::span<const std::byte> file, const PictureTransform& transform, const SampleKey& key,
                 uint32_t image, uint8_t* to);

}  // namespace ct
