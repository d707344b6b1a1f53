#include "batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/batch_norm.h"
#include "typed.h"

namespace ct::kernels {
namespace {

using Doubles = std::vector<double>;

constexpr double kEps = 1e-5, kF32 = Named<float>::kRounding;
const float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t rows, channels;
  bool relu = true, residual = false;
  float mean = 0;
  size_t shift = 0;  // of everything, off its alignment
  size_t n() const { return static_cast<size_t>(rows * channels); }
  size_t vector() const { return static_cast<size_t>(channels); }
  reference::Norm norm() const { return {rows, channels, kEps}; }
  std::string text() const {
    return std::to_string(rows) + "x" + std::to_string(channels) + (relu ? " relu" : "") +
           (residual ? " residual" : "") + " mean " + std::to_string(mean) + " shift " + std::to_string(shift);
  }
};

// Single elements; rows of whole accesses and not; a last part that is short; several parts and tiles; lanes of a block
// that do not make a power of two.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{{1, 1},
                                     {1, 8, true, true},
                                     {2, 3, false},
                                     {7, 5, true, true, 3, 1},
                                     {33, 6, false, true},
                                     {100, 64, true, true},
                                     {90, 24, true, true, 0.5f},
                                     {65, 264, true, true},
                                     {37, 67, true, false},
                                     {2500, 1, false, false, 10},
                                     {1100, 8, true, true}};
  return all;
}

std::vector<float> inputs(const Case& c, uint32_t which) {
  std::vector<float> x = numbers(c.n(), which);
  for (float& v : x) v += c.mean;
  return x;
}
std::vector<float> weights(const Case& c) {
  std::vector<float> w = numbers(c.vector(), 3);
  for (float& v : w) v += 0.25f;
  return w;
}
Doubles doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

template <class T>
struct Forward {
  Forward(const Case& c, const std::vector<float>& values)
      : c(c),
        x(values, c.shift),
        residual(numbers(c.n(), 2), c.shift),
        y(c.n(), c.shift),
        w(weights(c), c.shift),
        b(numbers(c.vector(), 4), c.shift),
        mean(c.vector(), c.shift),
        var(c.vector(), c.shift),
        workspace(batch_norm_workspace(shape()) / sizeof(float)) {}
  explicit Forward(const Case& c) : Forward(c, inputs(c, 1)) {}
  BatchNormShape shape() const { return {c.rows, c.channels, Named<T>::kType}; }
  BatchNormArgs args() {
    return {.shape = shape(),
            .eps = kEps,
            .relu = c.relu,
            .x = x.data(),
            .residual = c.residual ? residual.data() : nullptr,
            .w = w.data(),
            .b = b.data(),
            .y = y.data(),
            .mean = mean.data(),
            .var = var.data(),
            .workspace = workspace.data()};
  }
  void expect_result(const Doubles& means, const Doubles& vars) {
    const Doubles none, added = doubles(residual.values());
    const Doubles expected = reference::batch_norm(c.norm(), doubles(x.values()), means, vars, doubles(w.values()),
                                                   doubles(b.values()), c.residual ? added : none, c.relu);
    for (size_t i = 0; i < c.n(); ++i) {
      const size_t ch = i % c.vector();
      const double factor = std::abs(w[ch]) / std::sqrt(vars[ch] + kEps);
      const double tolerance = 4 * kF32 * (factor * (std::abs(means[ch]) + std::abs(x[i])) + std::abs(b[ch]) + 4) +
                               Named<T>::kRounding * std::abs(expected[i]) * 1.001 + 1e-7;
      ASSERT_NEAR(y[i], expected[i], tolerance) << c.text() << " at " << i;
    }
  }

  Case c;
  Buffer<T> x, residual, y;
  Buffer<float> w, b, mean, var, workspace;
};

template <class T>
struct Backward {
  explicit Backward(const Case& c)
      : c(c),
        x(inputs(c, 1), c.shift),
        y(numbers(c.n(), 5), c.shift),
        dy(numbers(c.n(), 6), c.shift),
        dx(c.n(), c.shift),
        dresidual(c.n(), c.shift),
        w(weights(c), c.shift),
        dw(c.vector(), c.shift),
        db(c.vector(), c.shift),
        batch_mean(c.vector(), c.shift),
        batch_var(c.vector(), c.shift),
        workspace(batch_norm_workspace(shape()) / sizeof(float)),
        mean(rounded(reference::channel_means(c.norm(), doubles(x.values())))),
        var(rounded(reference::channel_variances(c.norm(), doubles(x.values())))) {
    y.at(0) = from_float<T>(0);
  }
  static std::vector<float> rounded(const Doubles& v) { return {v.begin(), v.end()}; }
  BatchNormShape shape() const { return {c.rows, c.channels, Named<T>::kType}; }
  BatchNormGradArgs args() {
    return {.shape = shape(),
            .eps = kEps,
            .x = x.data(),
            .y = c.relu ? y.data() : nullptr,
            .dy = dy.data(),
            .w = w.data(),
            .mean = mean.data(),
            .var = var.data(),
            .dx = dx.data(),
            .dresidual = c.residual ? dresidual.data() : nullptr,
            .dw = dw.data(),
            .db = db.data(),
            .batch_mean = batch_mean.data(),
            .batch_var = batch_var.data(),
            .workspace = workspace.data()};
  }
  void expect_result() {
    const auto g =
        reference::batch_norm_gradients(c.norm(), doubles(x.values()), c.relu ? doubles(y.values()) : Doubles(),
                                        doubles(dy.values()), doubles(w.values()));
    const auto rows = static_cast<double>(c.rows), root = std::sqrt(rows);
    const auto sigma = [&](size_t ch) { return std::sqrt(var[ch] + kEps); };
    const auto off = [&](size_t ch) { return 4 + 2 * root + std::abs(mean[ch]) / sigma(ch); };
    for (size_t ch = 0; ch < c.vector(); ++ch) {
      ASSERT_NEAR(db[ch], g.db[ch], kF32 * 2 * (4 + 2 * root) * 2 * root) << c.text();
      ASSERT_NEAR(dw[ch], g.dw[ch], kF32 * 2 * off(ch) * 2 * root * root) << c.text();
      ASSERT_EQ(batch_mean[ch], mean[ch]);
      ASSERT_FLOAT_EQ(batch_var[ch], static_cast<float>(var[ch] * rows / std::max(1.0, rows - 1)));
    }
    for (size_t i = 0; i < c.n(); ++i) {
      const size_t ch = i % c.vector();
      const double terms = std::abs(g.g[i]) + (std::abs(g.db[ch]) + off(ch) * (std::abs(g.dw[ch]) + root)) / rows;
      ASSERT_NEAR(
          dx[i], g.dx[i],
          16 * kF32 * terms * std::abs(w[ch]) / sigma(ch) + Named<T>::kRounding * std::abs(g.dx[i]) * 1.001 + 1e-7)
          << c.text() << " at " << i;
      if (c.residual) {
        ASSERT_EQ(dresidual[i], g.g[i]) << c.text() << " at " << i;
      }
    }
  }

  Case c;
  Buffer<T> x, y, dy, dx, dresidual;
  Buffer<float> w, dw, db, batch_mean, batch_var, workspace, mean, var;
};

template <class T>
class BatchNorm : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(BatchNorm, Types);

TYPED_TEST(BatchNorm, IsTheReferences) {
  for (const Case& c : cases()) {
    std::vector<unsigned char> first;
    on_host::in_all_orders([&] {
      Forward<TypeParam> f(c);
      ASSERT_EQ(batch_norm(f.args(), nullptr), cudaSuccess);
      const Doubles x = doubles(f.x.values()), mean = reference::channel_means(c.norm(), x),
                    var = reference::channel_variances(c.norm(), x);
      for (size_t ch = 0; ch < c.vector(); ++ch) {
        ASSERT_NEAR(f.mean[ch], mean[ch], kF32 * (std::abs(mean[ch]) + 8 * std::sqrt(var[ch]) + 1e-3)) << c.text();
        ASSERT_NEAR(f.var[ch], var[ch], 16 * kF32 * var[ch]) << c.text();
      }
      f.expect_result(mean, var);
      if (first.empty()) first = f.y.bytes();
      EXPECT_EQ(f.y.bytes(), first) << c.text();
    });
  }
}

TYPED_TEST(BatchNorm, ByGivenStatisticsIsTheReferences) {
  for (const Case& c : cases())
    on_host::in_all_orders([&] {
      Forward<TypeParam> f(c);
      for (size_t ch = 0; ch < c.vector(); ++ch) {
        f.mean.at(ch) = c.mean + static_cast<float>(ch % 3);
        f.var.at(ch) = 0.5f + static_cast<float>(ch % 5);
      }
      ASSERT_EQ(batch_norm_result(f.args(), nullptr), cudaSuccess);
      f.expect_result(doubles(f.mean.values()), doubles(f.var.values()));
    });
}

TYPED_TEST(BatchNorm, BitsDependNeitherOnAlignmentNorOnWhereTheStatisticsComeFrom) {
  for (Case c : cases()) {
    c.shift = 0;
    Forward<TypeParam> f(c);
    ASSERT_EQ(batch_norm(f.args(), nullptr), cudaSuccess);
    const auto y = f.y.bytes();
    ASSERT_EQ(batch_norm_result(f.args(), nullptr), cudaSuccess);
    EXPECT_EQ(f.y.bytes(), y) << c.text();
    Backward<TypeParam> g(c);
    ASSERT_EQ(batch_norm_grad(g.args(), nullptr), cudaSuccess);
    c.shift = 1;
    Forward<TypeParam> shifted(c);
    ASSERT_EQ(batch_norm(shifted.args(), nullptr), cudaSuccess);
    EXPECT_EQ(shifted.y.bytes(), y) << c.text();
    EXPECT_EQ(shifted.var.bytes(), f.var.bytes()) << c.text();
    Backward<TypeParam> shifted_gradient(c);
    ASSERT_EQ(batch_norm_grad(shifted_gradient.args(), nullptr), cudaSuccess);
    EXPECT_EQ(shifted_gradient.dx.bytes(), g.dx.bytes()) << c.text();
    EXPECT_EQ(shifted_gradient.dw.bytes(), g.dw.bytes()) << c.text();
  }
}

TYPED_TEST(BatchNorm, GradientIsTheReferences) {
  for (const Case& c : cases()) {
    std::vector<unsigned char> dx, dw;
    on_host::in_all_orders([&] {
      Backward<TypeParam> g(c);
      ASSERT_EQ(batch_norm_grad(g.args(), nullptr), cudaSuccess);
      g.expect_result();
      if (dx.empty()) dx = g.dx.bytes(), dw = g.dw.bytes();
      EXPECT_EQ(g.dx.bytes(), dx) << c.text();
      EXPECT_EQ(g.dw.bytes(), dw) << c.text();
    });
  }
}

TYPED_TEST(BatchNorm, GradientIsTheSameWithAndWithoutTheResiduals) {
  for (Case c : cases()) {
    c.residual = true;
    Backward<TypeParam> with(c);
    ASSERT_EQ(batch_norm_grad(with.args(), nullptr), cudaSuccess);
    c.residual = false;
    Backward<TypeParam> without(c);
    ASSERT_EQ(batch_norm_grad(without.args(), nullptr), cudaSuccess);
    EXPECT_EQ(with.dx.bytes(), without.dx.bytes()) << c.text();
  }
}

// Sums of x and of x squared would leave nothing of these variances.
TEST(BatchNormStatistics, LargeMeansAndOutliersCostNoPrecision) {
  for (const float mean : {1e4f, -3e5f})
    for (const int64_t channels : {1, 4}) {
      const Case c{2500, channels, false, false, mean};
      Forward<float> f(c);
      ASSERT_EQ(batch_norm(f.args(), nullptr), cudaSuccess);
      const Doubles var = reference::channel_variances(c.norm(), doubles(f.x.values()));
      for (size_t ch = 0; ch < c.vector(); ++ch) EXPECT_NEAR(f.var[ch], var[ch], 16 * kF32 * var[ch]);
    }
  const Case c{2500, 1, false};
  std::vector<float> x = inputs(c, 1);
  x[0] = 500;  // the first part's differences are from it
  Forward<float> f(c, x);
  ASSERT_EQ(batch_norm(f.args(), nullptr), cudaSuccess);
  const double var = reference::channel_variances(c.norm(), doubles(x))[0];
  EXPECT_NEAR(f.var[0], var, 1e-4 * var);
}

TEST(BatchNormStatistics, ConstantsHaveNoVariance) {
  const Case c{300, 6, false};
  Forward<float> f(c, std::vector<float>(c.n(), 0.1f));
  ASSERT_EQ(batch_norm(f.args(), nullptr), cudaSuccess);
  for (size_t ch = 0; ch < 6; ++ch) {
    EXPECT_EQ(f.mean[ch], 0.1f);
    EXPECT_EQ(f.var[ch], 0);
    EXPECT_EQ(f.y[ch], f.b[ch]);
  }
}

// So many rows that threads have more of them than the fewest, and threads that merge have several parts.
TEST(BatchNormStatistics, OfManyRows) {
  const Case c{530000, 1};
  Forward<float> f(c);
  ASSERT_EQ(batch_norm(f.args(), nullptr), cudaSuccess);
  const Doubles x = doubles(f.x.values()), mean = reference::channel_means(c.norm(), x),
                var = reference::channel_variances(c.norm(), x);
  EXPECT_NEAR(f.mean[0], mean[0], 2 * kF32);
  EXPECT_NEAR(f.var[0], var[0], 4 * kF32 * var[0]);
  f.expect_result(mean, var);
}

TEST(BatchNormEdges, NanShowsInItsChannelAlone) {
  const Case c{50, 8};
  std::vector<float> x = inputs(c, 1);
  x[8 * 20 + 3] = kNan;
  Forward<float> f(c, x);
  ASSERT_EQ(batch_norm(f.args(), nullptr), cudaSuccess);
  for (size_t i = 0; i < c.n(); ++i) EXPECT_EQ(std::isnan(f.y[i]), i % 8 == 3) << i;
  for (size_t ch = 0; ch < 8; ++ch) EXPECT_EQ(std::isnan(f.mean[ch]) && std::isnan(f.var[ch]), ch == 3);
}

TEST(BatchNormEdges, NanPassesReluBackward) {
  Backward<float> g({20, 4, true, true});
  g.y.at(5) = kNan;
  ASSERT_EQ(batch_norm_grad(g.args(), nullptr), cudaSuccess);
  EXPECT_EQ(g.dresidual[5], g.dy[5]);
}

TEST(BatchNormEdges, RefusesShapesWithoutElements) {
  const int64_t shapes[][2] = {{0, 4}, {4, 0}, {0, 0}};
  for (const auto& [rows, channels] : shapes) {
    const Case c{rows, channels};
    Forward<float> f(c);
    EXPECT_EQ(batch_norm(f.args(), nullptr), cudaErrorInvalidValue);
    EXPECT_EQ(batch_norm_result(f.args(), nullptr), cudaErrorInvalidValue);
    BatchNormGradArgs args = {};
    args.shape = f.shape();
    EXPECT_EQ(batch_norm_grad(args, nullptr), cudaErrorInvalidValue);
  }
}

}  // namespace
}  // namespace ct::kernels
