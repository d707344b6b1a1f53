#include "layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "buffer.h"
#include "dropout.h"
#include "run.h"
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

/// Of lengths that registers hold, with pads and without, and one that they do not.
TYPED_TEST(LayerNormRows, AreThePromisedBits) {
  using T = TypeParam;
  constexpr size_t kRows = 67;
  constexpr double kEps = 1e-5;
  for (const size_t columns : {20, 192, 256, 300, 640, 700, 768, 1000, 1024, 1100})
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
            if (adds) {
              ASSERT_EQ(sum[row * stride + i], i < columns ? at(i) : 0) << i;
            }
          }
        }
      }
}

/// Gradients of rows that registers hold: the sums of dw and db by parts and warps, and of dx as of the rows' means.
TYPED_TEST(LayerNormRows, GradientsAreThePromisedBits) {
  using T = TypeParam;
  constexpr size_t kRows = 67, kParts = 3, kGroups = 9;
  for (const size_t columns : {20, 192, 256, 300, 512, 640, 768, 1000, 1024})
    for (const size_t shift : {0, 1})
      for (const bool adds : {false, true}) {
        const size_t stride = (columns + 15) / 16 * 16, n = kRows * stride;
        Buffer<T> x(numbers(n, 1), shift), dy(numbers(n, 2), shift), dsum(numbers(n, 3), shift), dx(n, shift);
        Buffer<float> w(numbers(columns, 4)), mean(numbers(kRows, 5)), rstd(numbers(kRows, 6)), dw(columns),
            db(columns), workspace(layer_norm_grad_workspace(kRows, static_cast<int64_t>(columns)) / sizeof(float));
        ASSERT_EQ(workspace.size(), kParts * 2 * columns);
        ASSERT_EQ(layer_norm_grad({.type = Named<T>::kType,
                                   .rows = kRows,
                                   .columns = static_cast<int64_t>(columns),
                                   .stride = static_cast<int64_t>(stride),
                                   .x = x.data(),
                                   .dy = dy.data(),
                                   .dsum = adds ? dsum.data() : nullptr,
                                   .w = w.data(),
                                   .mean = mean.data(),
                                   .rstd = rstd.data(),
                                   .dx = dx.data(),
                                   .dw = dw.data(),
                                   .db = db.data(),
                                   .workspace = workspace.data()},
                                  nullptr),
                  cudaSuccess);
        const auto n_at = [&](size_t row, size_t i) { return (x[row * stride + i] - mean[row]) * rstd[row]; };
        for (size_t i = 0; i < columns; ++i) {
          double dw_sum = 0, db_sum = 0;
          for (size_t part = 0; part < kParts; ++part) {
            const size_t begin = part * kGroups / kParts * 8, end = std::min(kRows, (part + 1) * kGroups / kParts * 8);
            float dw_part = 0, db_part = 0;
            for (size_t warp = 0; warp < 8; ++warp) {
              float dw_warp = 0, db_warp = 0;
              for (size_t row = begin + warp; row < end; row += 8) {
                dw_warp = std::fma(dy[row * stride + i], n_at(row, i), dw_warp);
                db_warp += dy[row * stride + i];
              }
              dw_part += dw_warp, db_part += db_warp;
            }
            dw_sum += dw_part, db_sum += db_part;
          }
          ASSERT_EQ(dw[i], static_cast<float>(dw_sum)) << columns << " " << i;
          ASSERT_EQ(db[i], static_cast<float>(db_sum)) << columns << " " << i;
        }
        const float share = 1 / static_cast<float>(columns);
        for (size_t row = 0; row < kRows; ++row) {
          const auto g = [&](size_t i) { return dy[row * stride + i] * w[i]; };
          const float g_mean = share * sum_of_row<T>(columns, [&](size_t i, float before) { return before + g(i); });
          const float gn_mean = share * sum_of_row<T>(columns, [&](size_t i, float before) {
                                  return std::fma(g(i), n_at(row, i), before);
                                });
          for (size_t i = 0; i < stride; ++i) {
            float value = 0;
            if (i < columns) {
              value = rstd[row] * (g(i) - std::fma(n_at(row, i), gn_mean, g_mean));
              if (adds) value += dsum[row * stride + i];
            }
            ASSERT_EQ(dx[row * stride + i], rounded<T>(value)) << columns << " " << row << " " << i;
          }
        }
      }
}

constexpr size_t kDroppedRows = 37;
const DropoutMask kMask{.key = nullptr, .number = 3, .below = 45000, .scale = 65536.0f / 45000};

template <class T>
void drop(const Operand<DropoutKey>& key, Buffer<T>& x, Buffer<T>& y) {
  ASSERT_EQ(dropout({.type = Named<T>::kType,
                     .n = static_cast<int64_t>(x.size()),
                     .key = key.data(),
                     .number = kMask.number,
                     .below = kMask.below,
                     .scale = kMask.scale,
                     .x = x.data(),
                     .y = y.data()},
                    nullptr),
            cudaSuccess);
}

/// Before the norm, and behind its gradient, as by a kernel of its own; NaN too.
TYPED_TEST(LayerNormRows, DropElementsAsDropoutDoes) {
  using T = TypeParam;
  const Operand<DropoutKey> key(1, DropoutKey{.seed = 7, .step = 11, .micro_batch = 2});
  DropoutMask mask = kMask;
  mask.key = key.data();
  for (const size_t columns : {128, 256, 384, 512, 640, 768, 1024}) {
    SCOPED_TRACE(columns);
    const auto width = static_cast<int64_t>(columns);
    ASSERT_TRUE(drops_elements(Named<T>::kType, width, width));
    const size_t n = kDroppedRows * columns;
    std::vector<float> values = numbers(n, 1);
    values[5] = values[n - 1] = std::numeric_limits<float>::quiet_NaN();
    Buffer<T> x(values), residual(numbers(n, 2)), dy(numbers(n, 3)), dsum(numbers(n, 4));
    Buffer<float> w(numbers(columns, 5)), b(numbers(columns, 6));
    const auto norm = [&](Buffer<T>& of, const DropoutMask& with) {
      Buffer<T> sum(n), y(n);
      Buffer<float> mean(kDroppedRows), rstd(kDroppedRows);
      EXPECT_EQ(layer_norm({.type = Named<T>::kType,
                            .rows = kDroppedRows,
                            .columns = width,
                            .stride = width,
                            .eps = 1e-5,
                            .x = of.data(),
                            .residual = residual.data(),
                            .w = w.data(),
                            .b = b.data(),
                            .sum = sum.data(),
                            .y = y.data(),
                            .mean = mean.data(),
                            .rstd = rstd.data(),
                            .mask = with},
                           nullptr),
                cudaSuccess);
      return std::tuple(sum.bytes(), y.bytes(), mean.bytes(), rstd.bytes());
    };
    Buffer<float> mean(numbers(kDroppedRows, 7)), rstd(numbers(kDroppedRows, 8));
    const auto gradient = [&](const DropoutMask& with) {
      Buffer<T> dx(n), dropped(n);
      Buffer<float> dw(columns), db(columns), workspace(layer_norm_grad_workspace(kDroppedRows, width) / sizeof(float));
      EXPECT_EQ(layer_norm_grad({.type = Named<T>::kType,
                                 .rows = kDroppedRows,
                                 .columns = width,
                                 .stride = width,
                                 .x = residual.data(),
                                 .dy = dy.data(),
                                 .dsum = dsum.data(),
                                 .w = w.data(),
                                 .mean = mean.data(),
                                 .rstd = rstd.data(),
                                 .dx = dx.data(),
                                 .dw = dw.data(),
                                 .db = db.data(),
                                 .workspace = workspace.data(),
                                 .mask = with,
                                 .dropped = with.key == nullptr ? nullptr : dropped.data()},
                                nullptr),
                cudaSuccess);
      if (with.key == nullptr) drop(key, dx, dropped);
      return std::tuple(dx.bytes(), dropped.bytes(), dw.bytes(), db.bytes());
    };
    Buffer<T> of_x(n);
    drop(key, x, of_x);
    const auto expected = norm(of_x, {});
    const auto expected_gradient = gradient({});
    on_host::in_all_orders([&] {
      EXPECT_TRUE(norm(x, mask) == expected);
      EXPECT_TRUE(gradient(mask) == expected_gradient);
    });
  }
}

TEST(LayerNorm, DropsElementsOfRowsInWholeGroupsAlone) {
  EXPECT_FALSE(drops_elements(Type::bf16, 192, 192));
  EXPECT_FALSE(drops_elements(Type::bf16, 250, 256));
  EXPECT_FALSE(drops_elements(Type::f32, 1152, 1152));
  Buffer<float> x(192), y(192), w(192);
  Operand<DropoutKey> key(1);
  DropoutMask mask = kMask;
  mask.key = key.data();
  EXPECT_EQ(layer_norm({.type = Type::f32,
                        .rows = 1,
                        .columns = 192,
                        .stride = 192,
                        .x = x.data(),
                        .residual = x.data(),
                        .w = w.data(),
                        .b = w.data(),
                        .sum = y.data(),
                        .y = y.data(),
                        .mask = mask},
                       nullptr),
            cudaErrorInvalidValue);
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
