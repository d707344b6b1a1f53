#include "layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/layer_norm.h"
#include "typed.h"

namespace ct::kernels {
namespace {

using Doubles = std::vector<double>;

constexpr double kEps = 1e-5, kF32 = Named<float>::kRounding;
const float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t rows, columns, stride;
  bool residual = false;  // of the gradient: dsum
  float mean = 0;
  size_t shift = 0;  // of rows, off 16-byte alignment
  size_t size() const { return static_cast<size_t>(rows * stride); }
  reference::LayerNorm norm() const { return {rows, columns, kEps}; }
};
std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.rows << " rows of " << c.columns << ", stride " << c.stride << (c.residual ? ", residual" : "")
            << ", mean " << c.mean << ", shifted by " << c.shift;
}

// One element; rows of whole accesses and not; more than a warp has lanes; several tiles and parts; unaligned.
const Case kCases[] = {{1, 1, 16},
                       {2, 16, 16, true},
                       {9, 33, 48, true, 3},
                       {5, 300, 304},
                       {3, 7, 7, true},
                       {40, 20, 32, true, 0, 1},
                       {17, 130, 144, false, -5},
                       {8, 24, 25, true},
                       {1100, 5, 16, true},
                       {33, 64, 64}};

/// Rows with NaN between them, where it must not matter.
template <class T>
std::vector<float> rows_of(const Case& c, uint32_t which, float mean = 0) {
  std::vector<float> v = numbers(c.size(), which);
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<int64_t>(i) % c.stride < c.columns ? rounded<T>(v[i] + mean) : kNan;
  return v;
}
template <class Values>
Doubles dense(const Case& c, const Values& rows) {
  Doubles values;
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t i = 0; i < c.columns; ++i) values.push_back(rows[static_cast<size_t>(r * c.stride + i)]);
  return values;
}
std::vector<float> weights(const Case& c) {
  std::vector<float> w = numbers(static_cast<size_t>(c.columns), 3);
  for (float& v : w) v += 0.25f;
  return w;
}
Doubles doubles(const Buffer<float>& buffer) {
  const std::vector<float> values = buffer.values();
  return {values.begin(), values.end()};
}
template <class T>
void expect_zero_pads(const Case& c, const Buffer<T>& rows) {
  for (size_t i = 0; i < c.size(); ++i)
    if (static_cast<int64_t>(i) % c.stride >= c.columns) {
      ASSERT_EQ(rows[i], 0) << i;
    }
}

template <class T>
struct Forward {
  explicit Forward(const Case& c)
      : c(c),
        x(rows_of<T>(c, 1, c.mean), c.shift),
        residual(rows_of<T>(c, 2), c.shift),
        sum(c.size(), c.shift),
        y(c.size(), c.shift),
        w(weights(c)),
        b(numbers(static_cast<size_t>(c.columns), 4)),
        mean(static_cast<size_t>(c.rows)),
        rstd(mean.size()) {}
  LayerNormArgs args() {
    return {.type = Named<T>::kType,
            .rows = c.rows,
            .columns = c.columns,
            .stride = c.stride,
            .eps = kEps,
            .x = x.data(),
            .residual = c.residual ? residual.data() : nullptr,
            .w = w.data(),
            .b = b.data(),
            .sum = c.residual ? sum.data() : nullptr,
            .y = y.data(),
            .mean = mean.data(),
            .rstd = rstd.data()};
  }
  /// What is normalised: x, or the sum as it is stored.
  Doubles normalised_rows() const {
    Doubles values = dense(c, x);
    const Doubles added = dense(c, residual);
    for (size_t i = 0; i < values.size() && c.residual; ++i)
      values[i] = rounded<T>(static_cast<float>(values[i]) + static_cast<float>(added[i]));
    return values;
  }
  void expect_result() const {
    const Doubles values = normalised_rows();
    const Doubles want = layer_norm(c.norm(), values, doubles(w), doubles(b));
    const Doubles means = row_means(c.norm(), values), vars = row_variances(c.norm(), values), got = dense(c, y);
    if (c.residual) {
      EXPECT_EQ(dense(c, sum), values);
      expect_zero_pads(c, sum);
    }
    expect_zero_pads(c, y);
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t row = i / w.size(), column = i % w.size();
      const double per_sigma = 1 / std::sqrt(vars[row] + kEps);
      const double n_off = 16 * kF32 * (std::abs(means[row]) + std::abs(values[i]) + 1) * per_sigma;
      ASSERT_NEAR(got[i], want[i],
                  std::abs(w[column]) * n_off + 4 * kF32 * (std::abs(b[column]) + std::abs(want[i])) +
                      Named<T>::kRounding * std::abs(want[i]) * 1.001 + 1e-7)
          << c << " at " << i;
      ASSERT_NEAR(mean[row], means[row], 8 * kF32 * (std::abs(means[row]) + 2)) << c;
      ASSERT_NEAR(rstd[row], per_sigma, 1e-5 * per_sigma) << c;
    }
  }

  Case c;
  Buffer<T> x, residual, sum, y;
  Buffer<float> w, b, mean, rstd;
};

template <class T>
struct Backward {
  explicit Backward(const Case& c)
      : c(c),
        x(rows_of<T>(c, 1, c.mean), c.shift),
        dy(rows_of<T>(c, 5), c.shift),
        dsum(rows_of<T>(c, 6), c.shift),
        dx(c.size(), c.shift),
        w(weights(c)),
        mean(static_cast<size_t>(c.rows)),
        rstd(mean.size()),
        dw(w.size()),
        db(w.size()),
        workspace(layer_norm_grad_workspace(c.rows, c.columns) / sizeof(float)) {
    const Doubles values = dense(c, x);
    const Doubles means = row_means(c.norm(), values), vars = row_variances(c.norm(), values);
    for (size_t r = 0; r < means.size(); ++r) {
      mean.at(r) = static_cast<float>(means[r]);
      rstd.at(r) = static_cast<float>(1 / std::sqrt(vars[r] + kEps));
    }
  }
  LayerNormGradArgs args() {
    return {.type = Named<T>::kType,
            .rows = c.rows,
            .columns = c.columns,
            .stride = c.stride,
            .x = x.data(),
            .dy = dy.data(),
            .dsum = c.residual ? dsum.data() : nullptr,
            .w = w.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .dx = dx.data(),
            .dw = dw.data(),
            .db = db.data(),
            .workspace = workspace.data()};
  }
  void expect_weights() const {
    const auto want = gradients();
    const double terms = static_cast<double>(c.rows), large = 16 + std::abs(c.mean);
    for (size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(dw[i], want.dw[i], kF32 * terms * large * 4) << c << " at " << i;
      ASSERT_NEAR(db[i], want.db[i], kF32 * terms * 8) << c << " at " << i;
    }
  }
  void expect_result() const {
    expect_weights();
    expect_zero_pads(c, dx);
    const auto want = gradients();
    const Doubles got = dense(c, dx), added = dense(c, dsum);
    for (size_t i = 0; i < got.size(); ++i) {
      const double per_sigma = rstd[i / w.size()], wanted = want.dx[i] + (c.residual ? added[i] : 0);
      const double off = 64 * kF32 * per_sigma * (1 + (1 + std::abs(c.mean)) * per_sigma);
      ASSERT_NEAR(got[i], wanted, off + Named<T>::kRounding * std::abs(wanted) * 1.001 + 1e-7) << c << " at " << i;
    }
  }
  reference::LayerNormGradients gradients() const {
    return layer_norm_gradients(c.norm(), dense(c, x), doubles(w), dense(c, dy));
  }

  Case c;
  Buffer<T> x, dy, dsum, dx;
  Buffer<float> w, mean, rstd, dw, db, workspace;
};

template <class>
class LayerNorm : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(LayerNorm, Types);

TYPED_TEST(LayerNorm, IsTheReferences) {
  for (const Case& c : kCases) {
    std::vector<unsigned char> first;
    on_host::in_all_orders([&] {
      Forward<TypeParam> f(c);
      ASSERT_EQ(layer_norm(f.args(), nullptr), cudaSuccess);
      f.expect_result();
      if (first.empty()) first = f.y.bytes();
      EXPECT_EQ(f.y.bytes(), first) << c;
    });
  }
}

TYPED_TEST(LayerNorm, GradientsAreTheReferences) {
  for (const Case& c : kCases) {
    std::vector<unsigned char> first, first_dw;
    on_host::in_all_orders([&] {
      Backward<TypeParam> g(c);
      ASSERT_EQ(layer_norm_grad(g.args(), nullptr), cudaSuccess);
      g.expect_result();
      if (first.empty()) first = g.dx.bytes(), first_dw = g.dw.bytes();
      EXPECT_EQ(g.dx.bytes(), first) << c;
      EXPECT_EQ(g.dw.bytes(), first_dw) << c;
    });
  }
}

/// How operands are aligned changes no bit.
TYPED_TEST(LayerNorm, TheSameBitsUnaligned) {
  for (const auto& [columns, stride] : {std::pair<int64_t, int64_t>{130, 144}, {24, 32}}) {
    const Case aligned{40, columns, stride, true, 2}, shifted{40, columns, stride, true, 2, 1};
    Forward<TypeParam> a(aligned), b(shifted);
    ASSERT_EQ(layer_norm(a.args(), nullptr), cudaSuccess);
    ASSERT_EQ(layer_norm(b.args(), nullptr), cudaSuccess);
    EXPECT_EQ(a.y.bytes(), b.y.bytes());
    Backward<TypeParam> c(aligned), d(shifted);
    ASSERT_EQ(layer_norm_grad(c.args(), nullptr), cudaSuccess);
    ASSERT_EQ(layer_norm_grad(d.args(), nullptr), cudaSuccess);
    EXPECT_EQ(c.dx.bytes(), d.dx.bytes());
    EXPECT_EQ(c.dw.bytes(), d.dw.bytes());
  }
}

/// More rows than there are parts of one tile.
TEST(LayerNormOf, ManyRows) {
  Backward<float> g({513 * 32 + 7, 3, 3});
  ASSERT_EQ(layer_norm_grad(g.args(), nullptr), cudaSuccess);
  g.expect_result();
}

TEST(LayerNormOf, WhatIsNotWantedIsNotWritten) {
  Forward<float> f({5, 33, 48, true});
  LayerNormArgs forward = f.args();
  forward.mean = forward.rstd = nullptr;
  ASSERT_EQ(layer_norm(forward, nullptr), cudaSuccess);
  EXPECT_TRUE(std::isnan(f.mean[0]) && std::isnan(f.rstd[0]));
  ASSERT_EQ(layer_norm(f.args(), nullptr), cudaSuccess);
  f.expect_result();
  Backward<float> g({5, 33, 48});
  LayerNormGradArgs backward = g.args();
  backward.dx = nullptr;
  ASSERT_EQ(layer_norm_grad(backward, nullptr), cudaSuccess);
  g.expect_weights();
  EXPECT_TRUE(std::isnan(g.dx[0]));
}

/// A NaN shows in all of its row, and in no other.
TEST(LayerNormOf, NotANumberStaysInItsRow) {
  Forward<float> f({3, 20, 32});
  f.x.at(32 + 7) = kNan;
  ASSERT_EQ(layer_norm(f.args(), nullptr), cudaSuccess);
  for (size_t i = 0; i < 3 * 32; ++i)
    if (i % 32 < 20) {
      EXPECT_EQ(std::isnan(f.y[i]), i / 32 == 1) << i;
    }
}

TEST(LayerNormOf, RefusesNonsense) {
  Forward<float> f({3, 20, 32, true});
  Backward<float> g({3, 20, 32});
  const auto refused = [&](auto&& change) {
    LayerNormArgs forward = f.args();
    LayerNormGradArgs backward = g.args();
    change(forward), change(backward);
    EXPECT_EQ(layer_norm(forward, nullptr), cudaErrorInvalidValue);
    EXPECT_EQ(layer_norm_grad(backward, nullptr), cudaErrorInvalidValue);
  };
  refused([](auto& a) { a.rows = 0; });
  refused([](auto& a) { a.columns = 0; });
  refused([](auto& a) { a.stride = 19; });
  refused([](auto& a) { a.type = static_cast<Type>(7); });
  LayerNormArgs lost = f.args();
  lost.sum = nullptr;
  EXPECT_EQ(layer_norm(lost, nullptr), cudaErrorInvalidValue);
  EXPECT_TRUE(std::isnan(f.y[0]) && std::isnan(g.dx[0]));
}

}  // namespace
}  // namespace ct::kernels
