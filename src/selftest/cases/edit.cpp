#include "selftest/reference/edit.h"

#include <string_view>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {
namespace {

struct Kind {
  std::string_view name;
  std::vector<EditDraw> draws;  // the images take them in turn
};

/// Every kind with numbers that it meets, and at its limits, for images of that size.
std::vector<Kind> kinds(int32_t height, int32_t width) {
  const int32_t one = kEditOne, last = width - 1, half_h = (height + 1) / 2, half_w = (width + 1) / 2;
  using enum EditKind;
  const auto factors = [&](EditKind kind) {
    return std::vector<EditDraw>{
        {kind, {one / 3}}, {kind, {0}}, {kind, {one}}, {kind, {one * 19 / 10}}, {kind, {7 * one}}};
  };
  return {
      {"none", {{none, {}}}},
      {"move",
       {{move, {1, -2, 0}}, {move, {-2, 1, 1}}, {move, {0, 0, 1}}, {move, {height, 0, 0}}, {move, {0, -width, 1}}}},
      {"resized_crop",
       {{resized_crop, {0, 0, width, height}},
        {resized_crop, {width - half_w, height - half_h, half_w, half_h}},
        {resized_crop, {0, 0, half_w, height}},
        {resized_crop, {0, height - 1, width, 1}},
        {resized_crop, {last, 0, 1, 1}}}},
      {"blend",
       {{blend, {0, 0, width, height, 1, one / 3}},
        {blend, {0, 0, half_w, half_h, -1, one}},
        {blend, {last, 0, 1, height, 1 << 30, one}},
        {blend, {0, 0, width, height, 0, one / 2}},
        {blend, {0, 0, 0, 0, 1, one}}}},
      {"brightness", factors(brightness)},
      {"contrast", factors(contrast)},
      {"saturation", factors(saturation)},
      {"sharpness", factors(sharpness)},
      {"hue", {{hue, {12}}, {hue, {0}}, {hue, {128}}, {hue, {255}}, {hue, {200}}}},
      {"posterize", {{posterize, {4}}, {posterize, {0}}, {posterize, {8}}, {posterize, {1}}, {posterize, {7}}}},
      {"solarize", {{solarize, {128}}, {solarize, {0}}, {solarize, {256}}, {solarize, {255}}, {solarize, {1}}}},
      {"auto_contrast", {{auto_contrast, {}}}},
      {"equalize", {{equalize, {}}}},
      {"affine",
       {{affine, {one, one / 5, one / 2, 0, one, one / 2}},
        {affine, {one, 0, one / 2, -one / 7, one, one / 2}},
        {affine, {60000, 26000, -70000, -26000, 60000, 180000}},
        {affine, {one, 0, one / 2 - 3 * one, 0, one, one / 2}},
        {affine, {-one, 0, width * one - 1, 0, -one, height * one - 1}}}},
  };
}

/// The pixels of the images with these numbers; 0 where there is none.
Doubles picked(const Doubles& pixels, const Doubles& index, size_t size) {
  if (index.empty()) return pixels;
  Doubles all;
  for (const double number : index) {
    if (number < 0) {
      all.insert(all.end(), size, 0);
      continue;
    }
    const auto first = pixels.begin() + static_cast<int64_t>(number) * static_cast<int64_t>(size);
    all.insert(all.end(), first, first + static_cast<int64_t>(size));
  }
  return all;
}

/// `index`: of each image of the micro-batch its number in the set, which may have no such image; empty: n itself.
OpCase edit_case(const Shape& shape, const Kind& kind, const Doubles& index = {}) {
  // Two draws of each image, of which the second counts.
  constexpr int kDraws = 2, kWords = 8;
  Case c;
  Doubles pixels = normal(at(shape.numel()), 3, 100);
  for (double& p : pixels) p = std::fmod(std::floor(std::abs(p)), 256);
  // Few levels in the second image, and one in the third.
  const size_t size = at(shape.numel() / shape[0]);
  for (size_t i = size; i < pixels.size() && i < 3 * size; ++i)
    pixels[i] = i < 2 * size ? 60 + std::fmod(pixels[i], 5) : 77;
  std::vector<EditDraw> draws;
  Doubles words;
  for (int64_t n = 0; n < shape[0]; ++n) {
    draws.push_back(kind.draws[at(n) % kind.draws.size()]);
    words.insert(words.end(), kWords, 99);
    words.push_back(static_cast<double>(draws.back().kind));
    words.insert(words.end(), draws.back().at.begin(), draws.back().at.end());
  }
  const std::vector<uint8_t> fill{128, 7, 255};
  const ValueId images = c.in(shape, pixels, DType::u8), drawn = c.in({shape[0] * kDraws * kWords}, words, DType::i32);
  const ValueId numbers = index.empty() ? kNone : c.in({shape[0]}, index, DType::i32);
  const Doubles of_batch = picked(pixels, index, size);
  Doubles expected = reference::edit(shape[0], shape[1], shape[2], shape[3], of_batch, draws, fill);
  for (size_t n = 0; n < index.size(); ++n)
    if (index[n] < 0) std::fill_n(expected.begin() + static_cast<int64_t>(n * size), size, 0);
  const ValueId out = c.out(shape, expected, {}, DType::u8);
  return c.of(Edit{images, numbers, drawn, out, kDraws - 1, kDraws, fill}, " ", kind.name, " ", to_string(shape),
              index.empty() ? "" : " of a set");
}

}  // namespace

void add_cases(Cases& cases, Of<Edit>) {
  for (const Shape& shape : {Shape{5, 3, 32, 32}, {6, 3, 9, 14}, {5, 1, 28, 28}, {5, 1, 3, 2}, {5, 3, 1, 1}})
    for (const Kind& kind : kinds(static_cast<int32_t>(shape[2]), static_cast<int32_t>(shape[3])))
      cases.push_back(edit_case(shape, kind));
  const Shape shape{5, 3, 9, 14};
  for (const Kind& kind : kinds(9, 14)) cases.push_back(edit_case(shape, kind, {4, 0, 0, -1, 2}));
}

}  // namespace ct::cases
