#include "layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "buffer.h"
#include "typed.h"

namespace ct::kernels {
namespace {

/// The sum as the header promises it to the bit: lane by lane, then lanes by halves.
template <class T, class Term>
float sum_of_row(size_t columns, const Term& term) {
  float lanes[kWarp] = {};
  for (size_t i = 0; i < columns; ++i) {
    float& lane = lanes[i / Pack<T>::kSize % kWarp];
    lane = term(i, lane);
  }
  for (int half = kWarp / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

template <class T>
class LayerNormRows : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(LayerNormRows, Types);

/// Of lengths that registers hold, and one that they do not; more rows than a warp has at a time.
TYPED_TEST(LayerNormRows, AreThePromisedBits) {
  using T = TypeParam;
  constexpr size_t kRows = 67;
  constexpr double kEps = 1e-5;
  for (const size_t columns : {20, 256, 300, 700, 1000, 1100})
    for (const size_t shift : {0, 1})
      for (const bool adds : {false, true}) {
        const size_t stride = (columns + 15) / 16 * 16, n = kRows * stride;
        Buffer<T> x(numbers(n, 1), shift), residual(numbers(n, 2), shift), sum(n, shift), y(n, shift);
        Buffer<float> w(numbers(columns, 3)), b(numbers(columns, 4)), mean(kRows), rstd(kRows);
        ASSERT_EQ(layer_norm({.type = Named<T>::kType,
                              .rows = kRows,
                              .columns = static_cast<int64_t>(columns),
                              .stride = static_cast<int64_t>(stride),
                              .eps = kEps,
                              .x = x.data(),
                              .residual = adds ? residual.data() : nullptr,
                              .w = w.data(),
                              .b = b.data(),
                              .sum = adds ? sum.data() : nullptr,
                              .y = y.data(),
                              .mean = mean.data(),
                              .rstd = rstd.data()},
                             nullptr),
                  cudaSuccess);
        const auto count = static_cast<float>(columns);
        for (size_t row = 0; row < kRows; ++row) {
          const auto at = [&](size_t i) {
            const float own = x[row * stride + i];
            return adds ? rounded<T>(own + residual[row * stride + i]) : own;
          };
          const float m = sum_of_row<T>(columns, [&](size_t i, float before) { return before + at(i); }) / count;
          const float squares =
              sum_of_row<T>(columns, [&](size_t i, float before) { return std::fma(at(i) - m, at(i) - m, before); });
          const float r = 1 / std::sqrt(squares / count + static_cast<float>(kEps));
          ASSERT_EQ(mean[row], m) << columns;
          ASSERT_EQ(rstd[row], r) << columns;
          for (size_t i = 0; i < stride; ++i) {
            ASSERT_EQ(y[row * stride + i], i < columns ? rounded<T>(std::fma((at(i) - m) * r, w[i], b[i])) : 0) << i;
            if (adds) ASSERT_EQ(sum[row * stride + i], i < columns ? at(i) : 0) << i;
          }
        }
      }
}

/// Of which pads are none; without a residual and with one.
TEST(LayerNorm, NotANumberStaysInItsRow) {
  constexpr size_t kRows = 3, kColumns = 20, kStride = 32;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values = numbers(kRows * kStride, 1);
  for (size_t i = 0; i < values.size(); ++i)
    if (i % kStride >= kColumns || i == kStride + 7) values[i] = nan;
  Buffer<float> x(values), residual(numbers(values.size(), 2)), sum(values.size()), y(values.size()),
      w(numbers(kColumns, 3)), b(numbers(kColumns, 4));
  for (const bool adds : {false, true}) {
    ASSERT_EQ(layer_norm({.type = Type::f32,
                          .rows = kRows,
                          .columns = kColumns,
                          .stride = kStride,
                          .eps = 1e-5,
                          .x = x.data(),
                          .residual = adds ? residual.data() : nullptr,
                          .w = w.data(),
                          .b = b.data(),
                          .sum = adds ? sum.data() : nullptr,
                          .y = y.data()},
                         nullptr),
              cudaSuccess);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % kStride < kColumns && i / kStride == 1) << i;
  }
}

}  // namespace
}  // namespace ct::kernels
