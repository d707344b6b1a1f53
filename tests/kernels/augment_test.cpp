#include "augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/augment.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr int32_t kLowest = std::numeric_limits<int32_t>::min(), kHighest = std::numeric_limits<int32_t>::max();

struct Shape {
  int64_t n, count, channels, height, width, stride;
};

/// What a case needs. Operands that are only read end where their values do, for AddressSanitizer to see.
struct Case {
  explicit Case(const Shape& s) : shape(s), images(s.count * s.channels * s.height * s.width) {
    uint32_t state = 12345;
    for (uint8_t& pixel : images) pixel = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
    for (int64_t c = 0; c < s.channels; ++c) {
      scale.push_back(1 / (255 * (0.2f + 0.01f * static_cast<float>(c))));
      shift.push_back(-2.1f + 0.3f * static_cast<float>(c));  // not 0: an image's outside differs from padding
    }
  }
  const Shape shape;
  Operand<uint8_t> images;
  Operand<int32_t> index, draws;  // empty: none
  Operand<float> scale, shift;
};

/// Every kind of draw in turn: none, moved to each side, flipped, moved out of sight.
Operand<int32_t> draws_for(const Shape& s) {
  const auto h = static_cast<int32_t>(s.height), w = static_cast<int32_t>(s.width);
  const std::vector<std::vector<int32_t>> kinds = {{0, 0, 0, 0},        {0, 0, 1, 0},
                                                   {-2, 1, 0, 7},       {3, -4, 1, 0},
                                                   {1, 2, 1, 0},        {1, -1, 0, 0},
                                                   {h - 1, 0, 0, 0},    {0, 1 - w, 1, 0},
                                                   {h, 0, 0, 0},        {0, w, 1, 0},
                                                   {0, -w, 0, 0},       {kLowest, 0, 0, 0},
                                                   {0, kHighest, 1, 0}, {kHighest, kLowest, 1, 0},
                                                   {0, kLowest, 0, 0}};
  Operand<int32_t> draws;
  for (int64_t n = 0; n < s.n; ++n)
    draws.insert(draws.end(), kinds[n % kinds.size()].begin(), kinds[n % kinds.size()].end());
  return draws;
}

/// The pixels that the reference picks, as one fma, rounded to T.
template <class T>
std::vector<float> expected(const Case& c, bool planar) {
  const Shape& s = c.shape;
  const int64_t size = s.channels * s.height * s.width, stride = planar ? s.channels : s.stride;
  std::vector<double> picked, draws(c.draws.begin(), c.draws.end());
  std::vector<bool> known(s.n);
  for (int64_t n = 0; n < s.n; ++n) {
    const int64_t source = c.index.empty() ? n : c.index[n];
    known[n] = source >= 0 && source < s.count;
    for (int64_t i = 0; i < size; ++i) picked.push_back(known[n] ? c.images[source * size + i] : 0);
  }
  if (draws.empty()) draws.resize(4 * s.n);
  const std::vector<float> one(s.channels, 1), zero(s.channels, 0);
  const std::vector<double> pixels = reference::augment(s.n, s.channels, s.height, s.width, picked, draws, one, zero);
  Buffer<T> out(s.n * s.height * s.width * stride);
  for (size_t i = 0; i < out.size(); ++i) out.at(i) = from_float<T>(0);
  size_t from = 0;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t k = 0; k < s.channels; ++k)
      for (int64_t yx = 0; yx < s.height * s.width; ++yx, ++from) {
        const float x = std::fma(static_cast<float>(pixels[from]), c.scale[k], c.shift[k]);
        out.at(planar ? from : (n * s.height * s.width + yx) * stride + k) =
            from_float<T>(known[n] ? x : std::numeric_limits<float>::quiet_NaN());
      }
  return out.values();
}

AugmentArgs arguments(const Case& c, bool planar, Type type, void* out) {
  const Shape& s = c.shape;
  return {.n = s.n,
          .channels = s.channels,
          .height = s.height,
          .width = s.width,
          .stride = planar ? 0 : s.stride,
          .planar = planar,
          .type = type,
          .count = s.count,
          .images = c.images.data(),
          .index = c.index.empty() ? nullptr : c.index.data(),
          .draws = c.draws.empty() ? nullptr : c.draws.data(),
          .scale = c.scale.data(),
          .shift = c.shift.data(),
          .out = out};
}

template <class T>
void check(const Case& c) {
  constexpr Type kType = Named<T>::kType;
  const Shape& s = c.shape;
  for (const bool planar : {false, true}) {
    SCOPED_TRACE(testing::Message() << s.n << " of " << s.count << " images " << s.channels << "x" << s.height << "x"
                                    << s.width << " to " << (planar ? "planes" : "stride ") << s.stride << ", type "
                                    << static_cast<int>(kType));
    const std::vector<float> values = expected<T>(c, planar);
    for (const size_t shift : {0, 1})
      on_host::in_all_orders([&] {
        Buffer<T> out(values.size(), shift);
        ASSERT_EQ(augment(arguments(c, planar, kType, out.data()), nullptr), cudaSuccess);
        expect_same(out.values(), values);
      });
  }
}
// Strides and widths whose runs are of every length that a pack of 4 or of 8 allows; images that are no whole number of
// packs; more than one block per image.
const Shape kShapes[] = {{1, 1, 1, 1, 1, 1}, {2, 2, 3, 1, 5, 3}, {3, 4, 3, 4, 4, 3},  {3, 3, 3, 5, 7, 4},
                         {2, 2, 3, 4, 8, 8}, {2, 2, 5, 3, 6, 6}, {2, 2, 1, 4, 10, 2}, {2, 2, 9, 2, 12, 12}};

TEST(Augment, Normalises) {
  for (const Shape& shape : kShapes) {
    check<float>(Case(shape));
    check<__nv_bfloat16>(Case(shape));
  }
}

TEST(Augment, PicksCropsAndFlips) {
  for (const Shape& shape : {Shape{15, 4, 3, 4, 4, 3}, Shape{15, 4, 3, 5, 8, 4}}) {
    Case c(shape);
    c.draws = draws_for(shape);
    for (int64_t n = 0; n < shape.n; ++n) c.index.push_back(static_cast<int32_t>((7 * n + 1) % shape.count));
    check<float>(c);
    check<__half>(c);
  }
}

TEST(Augment, ImagesOfSeveralBlocks) {
  Case c({.n = 2, .count = 3, .channels = 3, .height = 23, .width = 24, .stride = 4});
  c.draws = {2, -3, 1, 0, -4, 4, 0, 0};
  c.index = {2, 0};
  check<float>(c);
  check<__nv_bfloat16>(c);
  check<__half>(c);
}

TEST(Augment, AnIndexOutsideTheDataSetGivesNaN) {
  Case c({.n = 6, .count = 2, .channels = 3, .height = 4, .width = 6, .stride = 4});
  c.index = {1, 2, -1, kLowest, kHighest, 0};
  check<float>(c);
  check<__nv_bfloat16>(c);
  // No index: images beyond the data set are not in it either.
  c.index.clear();
  c.draws = draws_for(c.shape);
  check<float>(c);
  check<__half>(Case({.n = 1, .count = 0, .channels = 1, .height = 2, .width = 2, .stride = 2}));
}

}  // namespace
}  // namespace ct::kernels
