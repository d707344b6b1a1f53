#include "dropout.h"

#include <gtest/gtest.h>

#include "buffer.h"
#include "run.h"
#include "typed.h"

namespace ct::kernels {
namespace {

template <class T>
class DropoutKernel : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(DropoutKernel, Types);

TYPED_TEST(DropoutKernel, DrawsTheMaskOfItsKey) {
  using T = TypeParam;
  const DropoutKey keys[] = {{42, 0, 0}, {~uint64_t{0}, (int64_t{1} << 32) + 7, 70000}};
  for (const DropoutKey& key : keys)
    for (const size_t n : {0, 1, 127, 128, 2100})
      for (const size_t shift : {0, 1}) {
        Operand<DropoutKey> drawn;
        drawn.push_back(key);
        const std::vector<float> values = numbers(n, 1);
        Buffer<T> x(values, shift);
        std::vector<float> want;
        for (size_t i = 0; i < n; ++i)
          want.push_back(
              dropout_keeps(key, 5, 0.25, static_cast<int64_t>(i)) ? rounded<T>(rounded<T>(values[i]) * 1.25f) : 0.0f);
        on_host::in_all_orders([&] {
          Buffer<T> y(n, shift);
          const DropoutArgs args{.type = Named<T>::kType,
                                 .n = static_cast<int64_t>(n),
                                 .key = drawn.data(),
                                 .number = 5,
                                 .below = keep_below(0.25),
                                 .scale = 1.25f,
                                 .x = x.data(),
                                 .y = y.data()};
          ASSERT_EQ(dropout(args, nullptr), cudaSuccess);
          expect_same(y.values(), want);
        });
      }
}

TEST(Dropout, RefusesWhatMakesNoSense) {
  EXPECT_EQ(dropout({.type = Type::f32, .n = -1}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(dropout({.type = Type::f32, .n = (int64_t{1} << 34) + 1}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(dropout({.type = static_cast<Type>(7), .n = 1}, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ct::kernels
