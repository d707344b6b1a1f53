// From a picture's file to a sample: what is decoded of it, and how it gets its size.
//
// Training takes a random box (RandomResizedCrop), evaluation the middle of the resized picture (Resize, CenterCrop),
// by torchvision's rules. Steps that move or change pixels of a sample of the final size are the device's
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

/// How pictures become samples.
struct PictureTransform {
  int size = 224;    // data.size: width and height of a sample
  int resize = 256;  // data.resize: the shorter side of a picture before the sample is cut from its middle
  std::optional<RandomResizedCrop> crop = {};  // of data.augment: in training, in place of Resize and CenterCrop
  bool exact = false;               // data.exact: what is cropped at random is decoded in full resolution too
  int64_t max_pixels = kMaxPixels;  // data.max_pixels
  SampleShape shape() const { return {3, size, size}; }
};

/// The box that RandomResizedCrop takes of a picture, or of a sample that has its size already (augmentation.cpp), by
/// torchvision's rule: ten attempts at a share of the area (uniform) and a ratio of width to height (log-uniform), then
/// the largest box in the middle whose ratio is allowed.
Window random_window(const RandomResizedCrop& crop, PictureSize picture, Random& random);

/// Resize(shorter): the size of a whole picture when its shorter side is resized.
PictureSize resized_size(PictureSize picture, int shorter);
/// CenterCrop(side).
Window center_window(PictureSize picture, int side);

/// Writes the sample of a picture: u8, planar. `key` and `image` key what is drawn.
void make_sample(std::span<const std::byte> file, const PictureTransform& transform, const SampleKey& key,
                 uint32_t image, uint8_t* to);

}  // namespace ct
