#include "layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "buffer.h"

namespace ct::kernels {
namespace {

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
