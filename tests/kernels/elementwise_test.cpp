#include "elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "selftest/reference/activation.h"
#include "selftest/reference/bf16.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kN = 8192 + 13;  // of several blocks, and a rest

/// numbers(), with zeros of both signs, infinities and NaN among them, at places that depend on `which`.
std::vector<float> odd_numbers(size_t n, uint32_t which) {
  std::vector<float> v = numbers(n, which);
  const float odd[] = {0.0f, -0.0f, kNaN, kInfinity, -kInfinity};
  for (size_t i = which; i < n; i += 3 + which) v[i] = odd[i % 5];
  return v;
}

template <class T>
class Elementwise : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Elementwise, Types);

TYPED_TEST(Elementwise, TheResultMayBeAnOperand) {
  using T = TypeParam;
  constexpr Type kType = Named<T>::kType;
  const std::vector<float> left = rounded<T>(odd_numbers(kN, 1)), right = rounded<T>(odd_numbers(kN, 2));
  for (const Activation kind : kActivations) {
    Buffer<T> x(left), y(kN), dy(right), dx(kN);
    const auto value = [&](Buffer<T>& to) {
      return activate({.type = kType, .activation = kind, .n = kN, .x = x.data(), .y = to.data()}, nullptr);
    };
    const auto gradient = [&](Buffer<T>& to) {
      return activation_grad(
          {.type = kType, .activation = kind, .n = kN, .x = x.data(), .dy = dy.data(), .dx = to.data()}, nullptr);
    };
    ASSERT_EQ(gradient(dx), cudaSuccess);
    ASSERT_EQ(gradient(dy), cudaSuccess);
    expect_same(dy.values(), dx.values());
    ASSERT_EQ(value(y), cudaSuccess);
    ASSERT_EQ(value(x), cudaSuccess);
    expect_same(x.values(), y.values());
  }
  std::vector<float> sums;
  for (size_t i = 0; i < kN; ++i) sums.push_back(rounded<T>(left[i] + right[i]));
  Buffer<T> a(left), b(right);
  ASSERT_EQ(add({.type = kType, .n = kN, .a = a.data(), .b = b.data(), .y = b.data()}, nullptr), cudaSuccess);
  expect_same(b.values(), sums);
}

TYPED_TEST(Elementwise, ReluOfOddNumbers) {
  using T = TypeParam;
  const std::vector<float> values = rounded<T>(odd_numbers(kN, 1)), grads = rounded<T>(odd_numbers(kN, 2));
  std::vector<float> want = values, want_dx = grads;
  for (float& v : want) v = v <= 0 ? 0 : v;  // NaN stays
  for (size_t i = 0; i < kN; ++i)
    if (values[i] <= 0) want_dx[i] = 0;  // NaN lets through
  constexpr auto kRelu = Activation::relu;
  Buffer<T> x(values), y(kN), dy(grads), dx(kN);
  ASSERT_EQ(activate({.type = Named<T>::kType, .activation = kRelu, .n = kN, .x = x.data(), .y = y.data()}, nullptr),
            cudaSuccess);
  expect_same(y.values(), want);
  const ActivationGradArgs args{
      .type = Named<T>::kType, .activation = kRelu, .n = kN, .x = x.data(), .dy = dy.data(), .dx = dx.data()};
  ASSERT_EQ(activation_grad(args, nullptr), cudaSuccess);
  expect_same(dx.values(), want_dx);
}

/// Of a 16-bit type every number. Beside the bounds of all devices: as far as Phi is above 1e-9, the negative tail is
/// exact to the rounding, with an error of the polynomial of at most 5e-4.
TYPED_TEST(Elementwise, GeluOfAllNumbers) {
  using T = TypeParam;
  std::vector<float> values;
  if constexpr (sizeof(T) == 2)
    for (uint32_t bits = 0; bits < 65536; ++bits)
      values.push_back(to_float(std::bit_cast<T>(static_cast<uint16_t>(bits))));
  else
    for (float x = -16; x < 16; x += 0x1p-10f) values.push_back(x);
  const auto n = static_cast<int64_t>(values.size());
  Buffer<T> x(values), y(values.size()), dy(std::vector<float>(values.size(), 1)), dx(values.size());
  constexpr auto kGelu = Activation::gelu;
  ASSERT_EQ(activate({.type = Named<T>::kType, .activation = kGelu, .n = n, .x = x.data(), .y = y.data()}, nullptr),
            cudaSuccess);
  const ActivationGradArgs args{
      .type = Named<T>::kType, .activation = kGelu, .n = n, .x = x.data(), .dy = dy.data(), .dx = dx.data()};
  ASSERT_EQ(activation_grad(args, nullptr), cudaSuccess);
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    if (!std::isfinite(v)) {
      EXPECT_TRUE(v > 0 ? y[i] == v : std::isnan(y[i])) << v << ": " << y[i];
      EXPECT_TRUE(std::isnan(dx[i])) << v << ": " << dx[i];
      continue;
    }
    const auto errors = reference::activation_errors(kGelu, v);
    const double want = reference::activation(kGelu, std::vector<double>{v})[0];
    const double slope = reference::activation_gradient(kGelu, std::vector<double>{v}, std::vector<double>{1})[0];
    const double steps = sizeof(T) == 2 ? Named<T>::kRounding : 0;
    ASSERT_LE(std::abs(y[i] - want), errors.value + steps * std::abs(want) + 0x1p-25) << v << ": " << y[i];
    ASSERT_LE(std::abs(dx[i] - slope), errors.derivative + steps * std::abs(slope) + 0x1p-25) << v << ": " << dx[i];
    if (std::abs(v) < 5.7) {
      ASSERT_LE(std::abs(y[i] - want), (5e-4 + steps) * std::abs(want) + 0x1p-25) << v << ": " << y[i];
    }
  }
}

TYPED_TEST(Elementwise, CastToEveryType) {
  using T = TypeParam;
  const auto check = [](auto to) {
    using To = decltype(to);
    for (const size_t shift : {0, 1}) {  // of what is read
      const std::vector<float> values = rounded<T>(odd_numbers(kN, 1));
      Buffer<T> x(values, shift);
      Buffer<To> y(kN);
      const CastArgs args{.from = Named<T>::kType, .to = Named<To>::kType, .n = kN, .x = x.data(), .y = y.data()};
      ASSERT_EQ(cast(args, nullptr), cudaSuccess);
      expect_same(y.values(), rounded<To>(values));
    }
  };
  check(float{});
  check(__nv_bfloat16{});
  check(__half{});
}

TEST(Cast, RoundsAsBf16IsDefined) {
  std::vector<float> values = odd_numbers(600, 1);
  for (const int bits : {0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff, 0x00000001, 0x00408000})  // ties; the ends
    values.push_back(std::bit_cast<float>(bits));
  Buffer<float> x(values);
  Buffer<__nv_bfloat16> y(values.size());
  const CastArgs args{
      .from = Type::f32, .to = Type::bf16, .n = static_cast<int64_t>(values.size()), .x = x.data(), .y = y.data()};
  ASSERT_EQ(cast(args, nullptr), cudaSuccess);
  for (float& v : values) v = static_cast<float>(reference::rounded_to_bf16(v));
  expect_same(y.values(), values);
}

TEST(Cast, RoundsAsF16IsDefined) {
  // Ties to even, the largest, what is too large, the denormals, what is too small.
  const std::vector<float> values = {1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 65504,    65519.996f, 65520,   -1e9f,
                                     0x1p-24f,     0x1p-25f,         0x3p-25f, 0x1p-14f,   0x1p-26f};
  const std::vector<float> want = {1,        1 + 0x1p-9f, 65504,    65504,    kInfinity, -kInfinity,
                                   0x1p-24f, 0,           0x1p-23f, 0x1p-14f, 0};
  Buffer<float> x(values);
  Buffer<__half> y(values.size());
  const CastArgs args{
      .from = Type::f32, .to = Type::f16, .n = static_cast<int64_t>(values.size()), .x = x.data(), .y = y.data()};
  ASSERT_EQ(cast(args, nullptr), cudaSuccess);
  expect_same(y.values(), want);
}

}  // namespace
}  // namespace ct::kernels
