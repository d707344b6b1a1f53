#include "muon.h"

#include <cmath>

#include "buffer.h"
#include "run.h"

namespace ct::kernels {
namespace {

/// Rows of x close together or padded, fewer and more than a block's threads.
TEST(MuonMatrix, IsNormalisedIntoPaddedRowsAndScaledBack) {
  for (const auto& [rows, columns, stride] : {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 5}, {7, 27, 32}, {40, 300, 304}})
    on_host::in_all_orders([&, rows = rows, columns = columns, stride = stride] {
      const int64_t left_stride = (columns + 15) / 16 * 16;
      std::vector<float> values = numbers(static_cast<size_t>(rows * stride), 3);
      double squares = 0;
      for (int64_t i = 0; i < rows * stride; ++i) {
        float& v = values[static_cast<size_t>(i)];
        if (i % stride >= columns) v = 0;
        squares += double{v} * v;
      }
      Buffer<float> x(values), left(static_cast<size_t>(rows * left_stride));
      Buffer<double> workspace(kMuonNormBlocks);
      const MuonMatrix m{.rows = rows,
                         .columns = columns,
                         .x_stride = stride,
                         .left_stride = left_stride,
                         .x = x.data(),
                         .left = left.data()};
      ASSERT_EQ(muon_begin(m, 1e-7, workspace.data(), nullptr), cudaSuccess);
      EXPECT_EQ(x.values(), values);
      for (int64_t i = 0; i < rows * left_stride; ++i) {
        const int64_t row = i / left_stride, column = i % left_stride;
        const float got = left[static_cast<size_t>(i)];
        if (column >= columns) {
          ASSERT_EQ(got, 0) << i;
        } else {
          const double want = values[static_cast<size_t>(row * stride + column)] / std::sqrt(squares);
          ASSERT_NEAR(got, want, 2e-7 * std::fabs(want)) << i;
        }
      }
      const std::vector<float> normalised = left.values();
      ASSERT_EQ(muon_end(m, 0.5f, nullptr), cudaSuccess);
      for (int64_t i = 0; i < rows * stride; ++i) {
        const int64_t row = i / stride, column = i % stride;
        ASSERT_EQ(x[static_cast<size_t>(i)],
                  column < columns ? 0.5f * normalised[static_cast<size_t>(row * left_stride + column)] : 0)
            << i;
      }
    });
}

TEST(ScaledSum, GivesThePromisedBits) {
  for (const size_t n : {1u, 255u, 1000u}) {
    const std::vector<float> from = numbers(n, 1), to = numbers(n, 2);
    Buffer<float> a(from), b(to);
    ASSERT_EQ(
        scaled_sum({.a = 0.3f, .from = a.data(), .b = -1.7f, .to = b.data(), .n = static_cast<int64_t>(n)}, nullptr),
        cudaSuccess);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(b[i], std::fma(0.3f, from[i], -1.7f * to[i])) << i;
  }
}

}  // namespace
}  // namespace ct::kernels
