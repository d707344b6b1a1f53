#include "data/pictures/transform.h"

#include <algorithm>
#include <cmath>

#include "data/pictures/resize.h"

namespace ct {
namespace {

/// To the nearest whole number, halves to the even one, as Python rounds.
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

Box at_scale(const Window& w, double scale) { return {w.x * scale, w.y * scale, w.width * scale, w.height * scale}; }

}  // namespace

Window random_window(const ResizedCrop& crop, PictureSize picture, Random& random) {
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

PictureSize resized_size(PictureSize picture, int shorter) {
  const auto longer = [&](int64_t of, int64_t to) {
    return static_cast<int>(static_cast<double>(shorter * of) / static_cast<double>(to));
  };
  return picture.width <= picture.height ? PictureSize{shorter, longer(picture.height, picture.width)}
                                         : PictureSize{longer(picture.width, picture.height), shorter};
}

Window center_window(PictureSize picture, int side) {
  return {rounded((picture.width - side) / 2.0), rounded((picture.height - side) / 2.0), side, side};
}

void make_sample(std::span<const std::byte> file, const PictureTransform& transform, const SampleKey& key,
                 uint32_t image, uint8_t* to) {
  const PictureSize size = picture_info(file).size(), sample = {transform.size, transform.size};
  const DecodeOptions options{.max_pixels = transform.max_pixels};
  Resizing resizing;
  PicturePart part;
  if (transform.crop && key.epoch != SampleKey::kEvaluation) {
    Random random = draws_of(key, image, kResizedCropPlace);
    const Window window = random_window(*transform.crop, size, random);
    part = decode_window(file, window, {sample, transform.exact}, options);
    resizing = {.box = at_scale(window, part.scale), .size = sample, .part = {0, 0, sample.width, sample.height}};
  } else {
    const PictureSize whole = resized_size(size, transform.resize);
    resizing = {.box = at_scale({0, 0, size.width, size.height}, 1),
                .size = whole,
                .part = center_window(whole, transform.size)};
    part = decode_window(file, looked_at(resizing), {}, options);
  }
  resize(part.picture, part.x, part.y, resizing, to);
}

}  // namespace ct
