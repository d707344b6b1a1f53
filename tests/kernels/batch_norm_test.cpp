#include "batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "buffer.h"
#include "elementwise.h"
#include "run.h"
#include "selftest/reference/batch_norm.h"
#include "tickets.h"
#include "typed.h"

namespace ct::kernels {
namespace {

using Doubles = std::vector<double>;

constexpr double kEps = 1e-5, kF32 = Named<float>::kRounding;
const float kNan = std::numeric_limits<float>::quiet_NaN();

Doubles doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

/// Of x, with ReLU.
struct Forward {
  Forward(int64_t rows, int64_t channels, const std::vector<float>& values)
      : shape{rows, channels, Type::f32},
        x(values),
        y(x.size()),
        w(numbers(static_cast<size_t>(channels), 3)),
        b(numbers(w.size(), 4)),
        mean(w.size()),
        var(w.size()),
        workspace(batch_norm_workspace(shape) / sizeof(float)) {}
  BatchNormArgs args() {
    return {.shape = shape,
            .eps = kEps,
            .relu = true,
            .x = x.data(),
            .w = w.data(),
            .b = b.data(),
            .y = y.data(),
            .mean = mean.data(),
            .var = var.data(),
            .workspace = workspace.data(),
            .tickets = tickets.data()};
  }
  void run() { ASSERT_EQ(batch_norm(args(), nullptr), cudaSuccess); }
  Doubles variances() const {
    return reference::channel_variances({shape.rows, shape.channels, kEps}, doubles(x.values()));
  }

  BatchNormShape shape;
  Buffer<float> x, y, w, b, mean, var, workspace;
  Tickets tickets;
};

std::vector<float> around(float mean, size_t n) {
  std::vector<float> x = numbers(n, 1);
  for (float& v : x) v += mean;
  return x;
}

TEST(BatchNorm, BitsDoNotDependOnWhereTheStatisticsComeFrom) {
  Forward f(90, 24, around(0.5f, 90 * 24));
  f.run();
  const auto y = f.y.bytes();
  ASSERT_EQ(batch_norm_result(f.args(), nullptr), cudaSuccess);
  EXPECT_EQ(f.y.bytes(), y);
}

// Sums of x and of x squared would leave nothing of these variances.
TEST(BatchNormStatistics, LargeMeansAndOutliersCostNoPrecision) {
  for (const float mean : {1e4f, -3e5f})
    for (const int64_t channels : {1, 4}) {
      Forward f(2500, channels, around(mean, 2500 * static_cast<size_t>(channels)));
      f.run();
      const Doubles var = f.variances();
      for (size_t ch = 0; ch < var.size(); ++ch) EXPECT_NEAR(f.var[ch], var[ch], 16 * kF32 * var[ch]);
    }
  std::vector<float> x = around(0, 2500);
  x[0] = 500;  // the first part's differences are from it
  Forward f(2500, 1, x);
  f.run();
  EXPECT_NEAR(f.var[0], f.variances()[0], 1e-4 * f.variances()[0]);
}

TEST(BatchNormStatistics, ConstantsHaveNoVariance) {
  Forward f(300, 6, std::vector<float>(300 * 6, 0.1f));
  f.run();
  for (size_t ch = 0; ch < 6; ++ch) {
    EXPECT_EQ(f.mean[ch], 0.1f);
    EXPECT_EQ(f.var[ch], 0);
    EXPECT_EQ(f.y[ch], std::max(0.0f, f.b[ch]));
  }
}

// So many rows that threads have more of them than the fewest, and parts are merged in groups.
TEST(BatchNormStatistics, OfManyRows) {
  Forward f(530000, 1, around(0, 530000));
  f.run();
  const double mean = reference::channel_means({530000, 1, kEps}, doubles(f.x.values()))[0], var = f.variances()[0];
  EXPECT_NEAR(f.mean[0], mean, 2 * kF32);
  EXPECT_NEAR(f.var[0], var, 4 * kF32 * var);
}

/// Statistics, and the gradient's sums, of as many rows and channels as are left to be merged in any way: in f64.
void expect_sums_of_all_rows(int64_t rows, int64_t channels) {
  SCOPED_TRACE(testing::Message() << rows << " x " << channels);
  const auto each = static_cast<size_t>(channels), n = static_cast<size_t>(rows) * each;
  Forward f(rows, channels, around(0.5f, n));
  f.run();
  Buffer<float> dy(numbers(n, 6)), dx(n), dw(each), db(each), batch_mean(each), batch_var(each);
  ASSERT_EQ(batch_norm_grad({.shape = f.shape,
                             .eps = kEps,
                             .x = f.x.data(),
                             .dy = dy.data(),
                             .w = f.w.data(),
                             .mean = f.mean.data(),
                             .var = f.var.data(),
                             .dx = dx.data(),
                             .dw = dw.data(),
                             .db = db.data(),
                             .batch_mean = batch_mean.data(),
                             .batch_var = batch_var.data(),
                             .workspace = f.workspace.data(),
                             .tickets = f.tickets.data()},
                            nullptr),
            cudaSuccess);
  const Doubles means = reference::channel_means({rows, channels, kEps}, doubles(f.x.values())), vars = f.variances();
  Doubles sums(each), slopes(each);
  for (size_t i = 0; i < n; ++i) {
    const size_t ch = i % each;
    sums[ch] += dy[i];
    slopes[ch] += dy[i] * (f.x[i] - means[ch]) / std::sqrt(vars[ch] + kEps);
  }
  const double many = 8 * kF32 * std::sqrt(static_cast<double>(rows));
  for (size_t ch = 0; ch < each; ++ch) {
    ASSERT_NEAR(f.mean[ch], means[ch], 4 * kF32) << ch;
    ASSERT_NEAR(f.var[ch], vars[ch], 16 * kF32 * vars[ch]) << ch;
    ASSERT_NEAR(db[ch], sums[ch], many * 8) << ch;
    ASSERT_NEAR(dw[ch], slopes[ch], many * 8) << ch;
  }
}

#ifndef __SANITIZE_THREAD__  // minutes there, where NoBitDependsOnWhichBlockMerges has a small case
// Of which the last is smaller; of one tile and of several, of one thread a channel and of several.
TEST(BatchNormStatistics, OfGroupsOfParts) {
  expect_sums_of_all_rows(530000, 1);
  expect_sums_of_all_rows(9000, 64);
  expect_sums_of_all_rows(2500, 264);
}
#endif

/// Tiles of so many channels that a launch has no ticket for each: several launches.
TEST(BatchNormStatistics, OfMoreTilesThanTickets) { expect_sums_of_all_rows(3, (kTickets + 1) * 128); }

/// What the gradient writes with these arguments, to outputs of its own.
template <class T>
auto gradients_of(BatchNormGradArgs args, bool keeps_residual, size_t shift) {
  const auto each = static_cast<size_t>(args.shape.channels), n = static_cast<size_t>(args.shape.rows) * each;
  Buffer<T> dx(n, shift), dresidual(n, shift);
  Buffer<float> dw(each), db(each), batch_mean(each), batch_var(each),
      workspace(batch_norm_workspace(args.shape) / sizeof(float));
  args.eps = kEps;
  args.dx = dx.data();
  args.dresidual = keeps_residual ? dresidual.data() : nullptr;
  args.dw = dw.data();
  args.db = db.data();
  args.batch_mean = batch_mean.data();
  args.batch_var = batch_var.data();
  args.workspace = workspace.data();
  Tickets tickets;
  args.tickets = tickets.data();
  EXPECT_EQ(batch_norm_grad(args, nullptr), cudaSuccess);
  return std::tuple(dx.bytes(), dresidual.bytes(), dw.bytes(), db.bytes());
}

/// Where dy passes the ReLU is the same to the bit, whether y is read or computed again from x.
template <class T>
class BatchNormMask : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(BatchNormMask, Types);

TYPED_TEST(BatchNormMask, IsThatOfTheResult) {
  using T = TypeParam;
  for (const int64_t channels : {5, 16})
    for (const size_t shift : {0, 1}) {
      const BatchNormShape shape{300, channels, Named<T>::kType};
      const auto n = static_cast<size_t>(shape.rows * channels), each = static_cast<size_t>(channels);
      std::vector<float> values = around(0.1f, n), ws = numbers(each, 3), bs = numbers(each, 4);
      values[2] = kNan;
      // Some results of the last two channels are greater than 0 until they are rounded to f16 and to bf16.
      ws[each - 1] = 0x1p-25f, bs[each - 1] = 0, ws[each - 2] = 0x1p-134f, bs[each - 2] = 0;
      Buffer<T> x(values, shift), y(n, shift), unread(n, shift), dy(numbers(n, 6), shift);
      Buffer<float> w(ws), b(bs), mean(each), var(each), workspace(batch_norm_workspace(shape) / sizeof(float));
      Tickets tickets;
      ASSERT_EQ(batch_norm({.shape = shape,
                            .eps = kEps,
                            .relu = true,
                            .x = x.data(),
                            .w = w.data(),
                            .b = b.data(),
                            .y = y.data(),
                            .mean = mean.data(),
                            .var = var.data(),
                            .workspace = workspace.data(),
                            .tickets = tickets.data()},
                           nullptr),
                cudaSuccess);
      const auto gradients = [&](const void* result, const float* bias) {
        return gradients_of<T>({.shape = shape,
                                .x = x.data(),
                                .y = result,
                                .dy = dy.data(),
                                .w = w.data(),
                                .b = bias,
                                .mean = mean.data(),
                                .var = var.data()},
                               /*keeps_residual=*/false, shift);
      };
      EXPECT_EQ(gradients(unread.data(), b.data()), gradients(y.data(), nullptr)) << channels << ", " << shift;
    }
}

/// Bits of a ReLU behind a sum let the same gradients through as its result, which then nobody reads.
TYPED_TEST(BatchNormMask, OfBitsIsThatOfTheResult) {
  using T = TypeParam;
  if constexpr (sizeof(T) == 2)
    for (const bool more : {false, true})
      for (const size_t shift : {0, 1}) {
        const BatchNormShape shape{300, 24, Named<T>::kType};
        const auto n = static_cast<size_t>(shape.rows * shape.channels), each = static_cast<size_t>(shape.channels);
        std::vector<float> values = around(0.1f, n), ws = numbers(each, 3), bs = numbers(each, 4),
                           others = numbers(n, 5);
        values[2] = kNan;
        // Some results of the last two channels are greater than 0 until they are rounded to f16 and to bf16.
        ws[each - 1] = 0x1p-25f, bs[each - 1] = 0, ws[each - 2] = 0x1p-134f, bs[each - 2] = 0;
        for (size_t i = each - 2; i < n; i += each) others[i] = others[i + 1] = 0;
        Buffer<T> x(values, shift), residual(others, shift), y(n, shift), unread(n, shift), dy(numbers(n, 6), shift),
            more_dy(numbers(n, 7), shift);
        Buffer<uint8_t> bits(n / 8);
        Buffer<float> w(ws), b(bs), mean(each), var(each), workspace(batch_norm_workspace(shape) / sizeof(float));
        Tickets tickets;
        ASSERT_EQ(batch_norm({.shape = shape,
                              .eps = kEps,
                              .relu = true,
                              .x = x.data(),
                              .residual = residual.data(),
                              .w = w.data(),
                              .b = b.data(),
                              .y = y.data(),
                              .mask = bits.data(),
                              .mean = mean.data(),
                              .var = var.data(),
                              .workspace = workspace.data(),
                              .tickets = tickets.data()},
                             nullptr),
                  cudaSuccess);
        int passed = 0;
        for (size_t i = 0; i < n; ++i) {
          const bool bit = (bits.bytes()[i / 8] >> i % 8 & 1) != 0;
          ASSERT_EQ(bit, !(y[i] <= 0)) << i;
          passed += bit;
        }
        EXPECT_GT(passed, 0);
        EXPECT_LT(passed, static_cast<int>(n));
        const auto gradients = [&](const void* result, const uint8_t* mask, bool keeps_residual) {
          return gradients_of<T>({.shape = shape,
                                  .x = x.data(),
                                  .y = result,
                                  .dy = dy.data(),
                                  .mask = mask,
                                  .w = w.data(),
                                  .mean = mean.data(),
                                  .var = var.data(),
                                  .more_dy = more && keeps_residual ? more_dy.data() : nullptr},
                                 keeps_residual, shift);
        };
        for (const bool keeps_residual : {true, false})
          EXPECT_EQ(gradients(unread.data(), bits.data(), keeps_residual), gradients(y.data(), nullptr, keeps_residual))
              << more << ", " << shift << ", " << keeps_residual;
      }
}

/// Two gradients that the call adds give the bits of their sum.
TYPED_TEST(BatchNormMask, AddsTwoGradients) {
  using T = TypeParam;
  for (const int64_t channels : {5, 16})
    for (const size_t shift : {0, 1}) {
      const BatchNormShape shape{300, channels, Named<T>::kType};
      const auto n = static_cast<size_t>(shape.rows * channels), each = static_cast<size_t>(channels);
      Buffer<T> x(numbers(n, 1), shift), y(numbers(n, 2), shift), a(numbers(n, 6), shift), b(numbers(n, 7), shift),
          sum(n, shift);
      ASSERT_EQ(
          add({.type = shape.type, .n = shape.rows * channels, .a = a.data(), .b = b.data(), .y = sum.data()}, nullptr),
          cudaSuccess);
      Buffer<float> w(numbers(each, 3)), mean(numbers(each, 4)), var(std::vector<float>(each, 0.5f));
      const auto gradients = [&](const void* dy, const void* more_dy) {
        return gradients_of<T>({.shape = shape,
                                .x = x.data(),
                                .y = y.data(),
                                .dy = dy,
                                .w = w.data(),
                                .mean = mean.data(),
                                .var = var.data(),
                                .more_dy = more_dy},
                               /*keeps_residual=*/true, shift);
      };
      EXPECT_EQ(gradients(a.data(), b.data()), gradients(sum.data(), nullptr)) << channels << ", " << shift;
    }
}

/// Everything that the two passes write; each launch of other numbers. Of the gradients large ones cancel each other,
/// so that db shows the order in which they are added.
template <class T>
std::vector<std::vector<unsigned char>> results(const BatchNormShape& shape, Tickets& tickets, uint32_t launch) {
  const auto n = static_cast<size_t>(shape.rows * shape.channels), each = static_cast<size_t>(shape.channels);
  std::vector<float> gradients = numbers(n, 20 + launch);
  const float large = shape.type == Type::f16 ? 0x1p15f : 0x1p44f;
  for (size_t i = 0; i < n / 3; ++i) gradients[i] = large, gradients[n - 1 - i] = -large;
  Buffer<T> x(numbers(n, 10 + launch)), y(n), dy(gradients), dx(n);
  Buffer<float> w(numbers(each, 3)), b(numbers(each, 4)), mean(each), var(each), dw(each), db(each), batch_mean(each),
      batch_var(each), workspace(batch_norm_workspace(shape) / sizeof(float));
  EXPECT_EQ(batch_norm({.shape = shape,
                        .eps = kEps,
                        .relu = true,
                        .x = x.data(),
                        .w = w.data(),
                        .b = b.data(),
                        .y = y.data(),
                        .mean = mean.data(),
                        .var = var.data(),
                        .workspace = workspace.data(),
                        .tickets = tickets.data()},
                       nullptr),
            cudaSuccess);
  for (size_t i = 0; i < workspace.size(); ++i) workspace.at(i) = kNan;
  EXPECT_EQ(batch_norm_grad({.shape = shape,
                             .eps = kEps,
                             .x = x.data(),
                             .dy = dy.data(),
                             .w = w.data(),
                             .b = b.data(),
                             .mean = mean.data(),
                             .var = var.data(),
                             .dx = dx.data(),
                             .dw = dw.data(),
                             .db = db.data(),
                             .batch_mean = batch_mean.data(),
                             .batch_var = batch_var.data(),
                             .workspace = workspace.data(),
                             .tickets = tickets.data()},
                            nullptr),
            cudaSuccess);
  return {y.bytes(), mean.bytes(), var.bytes(), dx.bytes(), dw.bytes(), db.bytes(), batch_var.bytes()};
}

/// Whichever block is the last, launch after launch: of one part, of several tiles, of more parts than a thread adds at
/// once, of as many as are merged at once, and of groups of them, of which the last one is smaller.
TYPED_TEST(BatchNormMask, NoBitDependsOnWhichBlockMerges) {
  using T = TypeParam;
  constexpr int64_t kShapes[][2] = {{9, 24},    {300, 5},   {300, 64},   {110, 264}, {600, 256},
                                    {2000, 64}, {3500, 64}, {2500, 264}, {9000, 64}};
  for (const auto& [rows, channels] : kShapes) {
#ifdef __SANITIZE_THREAD__
    // More takes minutes here, and has no other races; groups are the same in every type.
    if (rows > (std::is_same_v<T, __nv_bfloat16> ? 600 : 300)) continue;
#endif
    SCOPED_TRACE(testing::Message() << rows << " x " << channels);
    const BatchNormShape shape{rows, channels, Named<T>::kType};
    std::vector<std::vector<unsigned char>> first, second;
    on_host::in_all_orders([&] {
      Tickets tickets;
      const auto now = results<T>(shape, tickets, 0), next = results<T>(shape, tickets, 1);
      if (first.empty()) first = now, second = next;
      EXPECT_TRUE(now == first);
      EXPECT_TRUE(next == second);
    });
  }
}

/// Parts get longer, rather than more than blocks can merge in two rounds.
TEST(BatchNormEdges, WorkspacesDoNotGrowForEver) {
  EXPECT_GT(batch_norm_workspace({int64_t{1} << 23, 1, Type::f32}), batch_norm_workspace({1 << 22, 1, Type::f32}));
  EXPECT_LT(batch_norm_workspace({int64_t{1} << 40, 1, Type::f32}), 300u << 10);
}

TEST(BatchNormEdges, NanShowsInItsChannelAlone) {
  std::vector<float> x = around(0, 50 * 8);
  x[8 * 20 + 3] = kNan;
  Forward f(50, 8, x);
  f.run();
  for (size_t i = 0; i < 50 * 8; ++i) EXPECT_EQ(std::isnan(f.y[i]), i % 8 == 3) << i;
  for (size_t ch = 0; ch < 8; ++ch) EXPECT_EQ(std::isnan(f.mean[ch]) && std::isnan(f.var[ch]), ch == 3);
}

TEST(BatchNormEdges, NanPassesReluBackward) {
  constexpr size_t kRows = 20, kChannels = 4, kN = kRows * kChannels;
  Buffer<float> x(numbers(kN, 1)), y(numbers(kN, 5)), dy(numbers(kN, 6)), w(numbers(kChannels, 3)), mean(w.values()),
      var(std::vector<float>(kChannels, 1.0f)), dx(kN), dresidual(kN), dw(kChannels), db(kChannels),
      batch_mean(kChannels), batch_var(kChannels);
  const BatchNormShape shape{kRows, kChannels, Type::f32};
  Buffer<float> workspace(batch_norm_workspace(shape) / sizeof(float));
  Tickets tickets;
  y.at(5) = kNan;
  ASSERT_EQ(batch_norm_grad({.shape = shape,
                             .eps = kEps,
                             .x = x.data(),
                             .y = y.data(),
                             .dy = dy.data(),
                             .w = w.data(),
                             .mean = mean.data(),
                             .var = var.data(),
                             .dx = dx.data(),
                             .dresidual = dresidual.data(),
                             .dw = dw.data(),
                             .db = db.data(),
                             .batch_mean = batch_mean.data(),
                             .batch_var = batch_var.data(),
                             .workspace = workspace.data(),
                             .tickets = tickets.data()},
                            nullptr),
            cudaSuccess);
  EXPECT_EQ(dresidual[5], dy[5]);
}

}  // namespace
}  // namespace ct::kernels
