#include "data/pictures/transform.h"

#include "base/rounded.h"
#include "data/pictures/resize.h"
#include "data/resized_crop.h"

namespace ct {
namespace {

Box at_scale(const Window& w, double scale) { return {w.x * scale, w.y * scale, w.width * scale, w.height * scale}; }

}  // namespace

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

}  // namespace ct
