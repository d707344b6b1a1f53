#include "patches.h"

#include <gtest/gtest.h>

#include <cmath>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/tokens.h"
#include "typed.h"

namespace ct::kernels {
namespace {

using reference::PatchGrid;

template <class T>
class Patches : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Patches, Types);

PatchesArgs args_of(const PatchGrid& s, int64_t stride) {
  return {.n = s.n,
          .channels = s.channels,
          .height = s.height,
          .width = s.width,
          .patch = s.patch,
          .shift = s.shift,
          .y_stride = stride};
}

TYPED_TEST(Patches, AreTheReferencesWithPadsOfZeros) {
  using T = TypeParam;
  struct Case {
    PatchGrid s;
    int64_t stride;
    size_t shift = 0;
  };
  const Case cases[] = {{{2, 3, 32, 32, 4, 1}, 240}, {{2, 3, 32, 32, 4, 0}, 48}, {{1, 1, 6, 9, 3, 1}, 48},
                        {{1, 1, 6, 9, 3, 1}, 45},    {{2, 2, 4, 2, 2, 1}, 48},   {{1, 3, 8, 8, 4, 1}, 240, 1},
                        {{1, 1, 4, 4, 2, 9}, 32},    {{1, 3, 8, 8, 8, 2}, 960},  {{0, 3, 8, 8, 4, 1}, 240},
                        {{1, 1, 5, 5, 1, 1}, 16}};
  for (const auto& [s, stride, shift] : cases) {
    SCOPED_TRACE(testing::Message() << s.n << " x " << s.channels << " x " << s.height << " x " << s.width << " by "
                                    << s.patch << ", shift " << s.shift << ", stride " << stride);
    const std::vector<float> images =
        rounded<T>(numbers(static_cast<size_t>(s.n * s.channels * s.height * s.width), 1));
    const std::vector<double> dense = reference::patches(s, {images.begin(), images.end()});
    std::vector<float> want(static_cast<size_t>(s.n * s.tokens() * stride));
    for (size_t i = 0; i < dense.size(); ++i) {
      const auto columns = static_cast<size_t>(s.columns());
      want[i / columns * static_cast<size_t>(stride) + i % columns] = static_cast<float>(dense[i]);
    }
    Buffer<T> x(images);
    on_host::in_all_orders([&] {
      Buffer<T> y(want.size(), shift);
      PatchesArgs args = args_of(s, stride);
      args.type = Named<T>::kType;
      args.images = x.data();
      args.y = y.data();
      ASSERT_EQ(patches(args, nullptr), cudaSuccess);
      expect_same(y.values(), want);
    });
  }
}

TEST(PatchesArgs, RefusesWhatMakesNoSense) {
  Buffer<float> x(3 * 8 * 8), y(4 * 240);
  const auto refused = [&](const PatchGrid& s, int64_t stride) {
    PatchesArgs args = args_of(s, stride);
    args.images = x.data();
    args.y = y.data();
    return patches(args, nullptr) == cudaErrorInvalidValue;
  };
  EXPECT_FALSE(refused({0, 3, 8, 8, 4, 1}, 240));
  EXPECT_TRUE(refused({1, 3, 8, 8, 3, 1}, 240));  // does not divide
  EXPECT_TRUE(refused({1, 3, 8, 8, 0, 1}, 240));
  EXPECT_TRUE(refused({1, 3, 8, 8, 4, -1}, 240));
  EXPECT_TRUE(refused({1, 3, 8, 8, 4, 1}, 239));  // rows would overlap
  EXPECT_TRUE(refused({-1, 3, 8, 8, 4, 1}, 240));
  EXPECT_TRUE(refused({1 << 30, 3, 8, 8, 4, 1}, 240));  // too many stores
  for (const float v : y.values()) EXPECT_TRUE(std::isnan(v));
}

}  // namespace
}  // namespace ct::kernels
