// Patches of images, also beyond the images' edges, and back.
#include "patches.h"

#include <gtest/gtest.h>

#include "buffer.h"
#include "typed.h"

namespace ct::kernels {
namespace {

template <class T>
class Patches : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Patches, Types);

struct Case {
  PatchShape shape;
  bool planar;
};

/// The shape of a stem's images and of its weights, an odd one, and one that only adds channels.
const Case kCases[] = {
    {{.n = 2,
      .channels = 3,
      .height = 18,
      .width = 22,
      .patch = 2,
      .down = 12,
      .across = 14,
      .before = 4,
      .y_stride = 16},
     true},
    {{.n = 5, .channels = 3, .height = 7, .width = 7, .patch = 2, .down = 4, .across = 4, .before = 1, .y_stride = 16},
     false},
    {{.n = 1, .channels = 5, .height = 7, .width = 4, .patch = 3, .down = 3, .across = 2, .before = 2, .y_stride = 45},
     true},
    {{.n = 2, .channels = 20, .height = 9, .width = 50, .patch = 1, .down = 9, .across = 50, .y_stride = 24}, false}};

TYPED_TEST(Patches, ContainTheirPixelsAndZerosBesideThem) {
  using T = TypeParam;
  for (const auto& [shape, planar] : kCases)
    for (const size_t shift : {0, 1}) {
      PatchShape s = shape;
      s.type = Named<T>::kType;
      const int64_t tokens = s.down * s.across, elements = s.channels * s.height * s.width;
      Buffer<T> x(numbers(static_cast<size_t>(s.n * elements), 1), shift);
      Buffer<T> y(static_cast<size_t>(s.n * tokens * s.y_stride), shift);
      ASSERT_EQ(patches({.shape = s, .planar = planar, .images = x.data(), .y = y.data()}, nullptr), cudaSuccess);
      for (int64_t i = 0; i < s.n * tokens * s.y_stride; ++i) {
        const int64_t at = i % s.y_stride, t = i / s.y_stride % tokens, image = i / s.y_stride / tokens;
        const int64_t place = at / s.channels, channel = at % s.channels;
        const int64_t row = t / s.across * s.patch + place / s.patch - s.before;
        const int64_t column = t % s.across * s.patch + place % s.patch - s.before;
        const bool inside = place < s.patch * s.patch && row >= 0 && row < s.height && column >= 0 && column < s.width;
        const int64_t from =
            planar ? (channel * s.height + row) * s.width + column : (row * s.width + column) * s.channels + channel;
        ASSERT_EQ(y[static_cast<size_t>(i)], inside ? x[static_cast<size_t>(image * elements + from)] : 0)
            << i << " of " << s.channels << " x " << s.height << " x " << s.width;
      }
    }
}

TYPED_TEST(Patches, GiveTheirPixelsBack) {
  using T = TypeParam;
  for (const auto& [shape, planar] : kCases) {
    if (planar) continue;
    PatchShape s = shape;
    s.type = Named<T>::kType;
    const std::vector<float> values = numbers(static_cast<size_t>(s.n * s.channels * s.height * s.width), 1);
    Buffer<T> x(values);
    Buffer<T> y(static_cast<size_t>(s.n * s.down * s.across * s.y_stride)), back(values.size());
    ASSERT_EQ(patches({.shape = s, .planar = false, .images = x.data(), .y = y.data()}, nullptr), cudaSuccess);
    ASSERT_EQ(pixels_of_patches({.shape = s, .y = y.data(), .images = back.data()}, nullptr), cudaSuccess);
    EXPECT_EQ(back.values(), x.values());
  }
}

}  // namespace
}  // namespace ct::kernels
