#include "data/pictures/transform.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/pictures/resize.h"

namespace ct {
namespace {

Box at_scale(const Window& w, double scale) { return {w.x * scale, w.y * scale, w.width * scale, w.height * scale}; }

/// As Python rounds: halves to the even number.
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

}  // namespace

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

namespace {

void make_colour_sample(std::span<const std::byte> file, const PictureTransform& transform, const SampleKey& key,
                        uint32_t image, uint8_t* to) {
  const DecodeOptions options{.max_pixels = transform.max_pixels};
  if (transform.crop && key.epoch != SampleKey::kEvaluation) {
    const PictureSize sample = {transform.size, transform.size};
    Window window;
    const auto choose = [&](PictureSize picture) {
      Random random = draws_of(key, image, kResizedCropPlace);
      return window = random_window(*transform.crop, picture, random);
    };
    const PicturePart part = decode_window(file, choose, {sample, transform.exact}, options);
    // The scale that was decoded decides the weights.
    Resizer({.box = at_scale(window, part.scale), .size = sample, .part = {0, 0, sample.width, sample.height}})
        .run(part.picture, part.x, part.y, to);
    return;
  }
  std::optional<Resizer> resizer;
  const auto choose = [&](PictureSize picture) {
    const PictureSize whole = resized_size(picture, transform.resize);
    resizer.emplace(Resizing{.box = box_of({0, 0, picture.width, picture.height}),
                             .size = whole,
                             .part = center_window(whole, transform.size)});
    return resizer->looked_at();
  };
  const PicturePart part = decode_window(file, choose, {}, options);
  resizer->run(part.picture, part.x, part.y, to);
}

}  // namespace

void make_sample(std::span<const std::byte> file, const PictureTransform& transform, const SampleKey& key,
                 uint32_t image, uint8_t* to) {
  if (!transform.grey) return make_colour_sample(file, transform, key, image, to);
  const size_t pixels = transform.shape().bytes();
  std::vector<uint8_t> rgb(3 * pixels);
  make_colour_sample(file, transform, key, image, rgb.data());
  for (size_t i = 0; i < pixels; ++i)  // luma in 16 fractional bits
    to[i] =
        static_cast<uint8_t>((19595u * rgb[i] + 38470u * rgb[pixels + i] + 7471u * rgb[2 * pixels + i] + 32768) >> 16);
}

}  // namespace ct
