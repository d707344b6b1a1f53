#include "device/cpu/kernels/layer_norm.h"

#include "device/cpu/kernels/column_sums.h"
#include "device/cpu/kernels/testing.h"

namespace ct::cpu {
namespace {

class LayerNorm : public KernelTest {};
CT_KERNEL_SUITE(LayerNorm);

/// Rows whose results go past the caches are normalised, and have gradients, as few rows are.
TEST_P(LayerNorm, LargeResultsAreTheSame) {
  constexpr int64_t kColumns = 20, kStride = 32, kSome = 100, kRows = (int64_t{64} << 20) / 4 / kStride + 3;
  const auto numel = static_cast<size_t>(kRows * kStride), few = static_cast<size_t>(kSome * kStride);
  Buffer<float> x(numel), y(numel), y_of_few(few), w(normal(kColumns, 1), 16), b(normal(kColumns, 2), 16), mean(kRows),
      rstd(kRows), dw(kColumns), db(kColumns), workspace(layer_norm_workspace({kRows, kColumns}) / sizeof(float));
  for (size_t i = 0; i < numel; ++i) x[i] = i % kStride < kColumns ? static_cast<float>(i * 7919 % 1009) / 100 - 5 : 0;
  const auto forward = [&](int64_t first, int64_t rows, float* result) {
    layer_norm(LayerNormArgs<float>{.shape = {rows, kColumns},
                                    .eps = 1e-5,
                                    .x = x.data() + first * kStride,
                                    .residual = nullptr,
                                    .w = w,
                                    .b = b,
                                    .sum = nullptr,
                                    .y = result,
                                    .mean = mean.data() + first,
                                    .rstd = rstd.data() + first,
                                    .workspace = workspace});
  };
  const auto backward = [&](int64_t first, int64_t rows, float* result) {
    layer_norm_grad(LayerNormGradArgs<float>{.shape = {rows, kColumns},
                                             .x = x.data() + first * kStride,
                                             .dy = x.data() + first * kStride,
                                             .dsum = nullptr,
                                             .w = w,
                                             .mean = mean.data() + first,
                                             .rstd = rstd.data() + first,
                                             .dx = result,
                                             .dw = dw,
                                             .db = db,
                                             .workspace = workspace});
  };
  const auto expect_the_same = [&](const auto& launch) {
    launch(0, kRows, y.data());
    for (const int64_t first : {int64_t{0}, kRows - kSome}) {
      launch(first, kSome, y_of_few.data());
      EXPECT_EQ(std::memcmp(y.data() + first * kStride, y_of_few.data(), few * sizeof(float)), 0);
    }
    EXPECT_TRUE(y.intact());
  };
  expect_the_same(forward);
  expect_the_same(backward);
}

/// Column sums of more rows than a run, by vectors and by what is left of them.
TEST_P(LayerNorm, ColumnSums) {
  constexpr int64_t kRows = 150, kColumns = 149, kStride = 160;
  const std::vector<double> dense = normal(kRows * kColumns, 1);
  Buffer<float> x(with_stride(dense, kColumns, kStride)), sums(kColumns);
  column_sums(x.data(), kRows, kColumns, kStride, sums);
  for (int64_t c = 0; c < kColumns; ++c) {
    double want = 0;
    for (int64_t r = 0; r < kRows; ++r) want += dense[r * kColumns + c];
    EXPECT_NEAR(sums[c], want, tolerance(64, 8)) << c;
  }
  EXPECT_TRUE(sums.intact());
}

}  // namespace
}  // namespace ct::cpu
