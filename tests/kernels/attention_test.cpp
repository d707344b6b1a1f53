#include "attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/attention.h"
#include "typed.h"

namespace ct::kernels {
namespace {

struct Case {
  int64_t n, tokens, heads, width;
  bool mask_diagonal;
  int64_t qkv_pad = 0, y_pad = 0;  // elements
  size_t shift = 0;
  reference::AttentionSizes sizes() const { return {n, tokens, heads, width, mask_diagonal}; }
  int64_t row() const { return heads * width; }
  int64_t qkv_stride() const { return 3 * row() + qkv_pad; }
  int64_t y_stride() const { return row() + y_pad; }
  AttentionShape shape(Type type) const {
    return {type, n, tokens, heads, width, mask_diagonal, qkv_stride(), y_stride()};
  }
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.n << " x " << c.tokens << " tokens, " << c.heads << " heads of " << c.width << ", masked "
             << c.mask_diagonal << ", pads " << c.qkv_pad << " and " << c.y_pad << ", shifted by " << c.shift;
}

/// One tile and several, whole and not, of every size.
const Case kCases[] = {
    {2, 5, 2, 3, true, 7, 2}, {1, 32, 1, 8, false},       {1, 35, 1, 16, true, 0, 16, 1}, {1, 1, 1, 4, false},
    {1, 2, 3, 1, true, 1},    {1, 20, 1, 65, true, 5, 3}, {1, 9, 1, 129, false, 0, 0, 3}, {1, 5, 1, 260, true},
    {2, 35, 2, 16, true},     {0, 5, 2, 3, true}};

/// Dense rows with pads of NaN between them, which nobody may read.
template <class T>
void fill(Buffer<T>& to, const std::vector<float>& dense, int64_t row, int64_t stride) {
  for (size_t i = 0; i < dense.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    to.at(static_cast<size_t>(at / row * stride + at % row)) = from_float<T>(dense[i]);
  }
}
template <class T>
std::vector<double> rounded_doubles(const std::vector<float>& v) {
  const std::vector<float> r = rounded<T>(v);
  return {r.begin(), r.end()};
}

/// Close to `want`, and zeros in the pads.
template <class T>
void expect_rows(const Buffer<T>& got, const std::vector<double>& want, int64_t row, int64_t stride) {
  double largest = 0;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < got.size(); ++i) {
    const auto at = static_cast<int64_t>(i), column = at % stride;
    const double expected = column < row ? want[static_cast<size_t>(at / stride * row + column)] : 0;
    const double tolerance = column < row ? 3e-5 * largest + 1.01 * Named<T>::kRounding * std::abs(expected) + 1e-7 : 0;
    ASSERT_NEAR(got[i], expected, tolerance) << "element " << i;
  }
}

template <class T>
class AttentionKernel : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(AttentionKernel, Types);

TYPED_TEST(AttentionKernel, IsTheReferencesForwardAndBackward) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c);
    const auto elements = static_cast<size_t>(c.n * c.tokens * c.row());
    const std::vector<float> of_qkv = numbers(3 * elements, 1), of_dy = numbers(elements, 2);
    const auto rows = static_cast<size_t>(c.n * c.tokens), logs = rows * static_cast<size_t>(c.heads);
    Buffer<T> qkv(rows * static_cast<size_t>(c.qkv_stride()), c.shift);
    Buffer<T> dy(rows * static_cast<size_t>(c.y_stride()), c.shift);
    fill(qkv, of_qkv, 3 * c.row(), c.qkv_stride());
    fill(dy, of_dy, c.row(), c.y_stride());
    Buffer<float> temperature(std::vector<float>{-0.7f});
    const double learnt = std::exp(static_cast<double>(-0.7f));
    const std::vector<double> x = rounded_doubles<T>(of_qkv), d = rounded_doubles<T>(of_dy);
    const bool with_temperature = c.heads % 2 == 1;
    const double scale = with_temperature ? learnt : 0.5;
    const auto want = reference::attention(c.sizes(), x, scale);
    const auto gradients = reference::attention_gradients(c.sizes(), x, scale, d);
    on_host::in_all_orders([&] {
      Buffer<T> y(dy.size(), c.shift), dqkv(qkv.size(), c.shift);
      Buffer<float> log_sum_exp(logs), dtemperature(1),
          workspace(attention_grad_workspace_bytes(c.shape(Named<T>::kType)) / sizeof(float));
      const float* at_temperature = with_temperature ? temperature.data() : nullptr;
      ASSERT_EQ(attention({.shape = c.shape(Named<T>::kType),
                           .qkv = qkv.data(),
                           .scale = 0.5f,
                           .temperature = at_temperature,
                           .y = y.data(),
                           .log_sum_exp = log_sum_exp.data()},
                          nullptr),
                cudaSuccess);
      expect_rows(y, want.y, c.row(), c.y_stride());
      for (size_t i = 0; i < logs; ++i) ASSERT_NEAR(log_sum_exp[i], want.log_sum_exp[i], 1e-4) << i;
      ASSERT_EQ(attention_grad({.shape = c.shape(Named<T>::kType),
                                .qkv = qkv.data(),
                                .scale = 0.5f,
                                .temperature = at_temperature,
                                .log_sum_exp = log_sum_exp.data(),
                                .dy = dy.data(),
                                .dqkv = dqkv.data(),
                                .dtemperature = with_temperature ? dtemperature.data() : nullptr,
                                .workspace = workspace.data()},
                               nullptr),
                cudaSuccess);
      expect_rows(dqkv, gradients.dqkv, 3 * c.row(), c.qkv_stride());
      if (with_temperature) {
        double sizes = 1;  // of the products that it is the sum of: queries and their gradients
        for (size_t i = 0; i < x.size(); ++i)
          if (static_cast<int64_t>(i) % (3 * c.row()) < c.row()) sizes += std::abs(x[i] * gradients.dqkv[i]);
        EXPECT_NEAR(dtemperature[0], gradients.dtemperature, 1e-5 * sizes);
      }
    });
  }
}

TEST(Attention, WhatIsNoNumberShows) {
  const Case c{1, 40, 1, 4, false};
  Buffer<float> qkv(numbers(static_cast<size_t>(c.tokens * c.qkv_stride()), 1)), y(static_cast<size_t>(40 * 4));
  qkv.at(static_cast<size_t>(35 * c.qkv_stride() + 4)) = NAN;  // a key
  ASSERT_EQ(attention({.shape = c.shape(Type::f32), .qkv = qkv.data(), .scale = 1, .y = y.data()}, nullptr),
            cudaSuccess);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
}

TEST(Attention, RefusesWhatMakesNoSense) {
  const AttentionShape good{Type::f32, 1, 2, 1, 4, true, 12, 4};
  const auto with = [&](auto change) {
    AttentionShape s = good;
    change(s);
    return s;
  };
  for (const AttentionShape& s :
       {with([](auto& s) { s.type = static_cast<Type>(7); }), with([](auto& s) { s.n = -1; }),
        with([](auto& s) { s.tokens = 0; }), with([](auto& s) { s.tokens = 1; }), with([](auto& s) { s.heads = 0; }),
        with([](auto& s) { s.width = 513, s.qkv_stride = s.y_stride = 10000; }),
        with([](auto& s) { s.qkv_stride = 11; }), with([](auto& s) { s.y_stride = 3; })}) {
    EXPECT_EQ(attention({.shape = s}, nullptr), cudaErrorInvalidValue);
    EXPECT_EQ(attention_grad({.shape = s}, nullptr), cudaErrorInvalidValue);
  }
}

}  // namespace
}  // namespace ct::kernels
