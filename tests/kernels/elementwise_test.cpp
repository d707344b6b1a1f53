#include "elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/bf16.h"
#include "selftest/reference/gelu.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

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

/// Calls body(n, shift): nothing, less than a group, groups with a rest, a block's share exactly and more, unaligned.
void for_sizes(const std::function<void(size_t, size_t)>& body) {
  for (const size_t n : {0, 1, 3, 8, 9, 255, 4096, 8192 + 13})
    for (const size_t shift : {0, 1}) {
      if (n > 4096 && shift != 0) continue;
      SCOPED_TRACE(testing::Message() << n << " elements, shifted by " << shift);
      on_host::in_all_orders([&] { body(n, shift); });
    }
}

float relu_of(float x) { return x <= 0 ? 0 : x; }
cudaError_t relu(ActivateArgs args) {
  args.activation = Activation::relu;
  return activate(args, nullptr);
}

TYPED_TEST(Elementwise, Relu) {
  using T = TypeParam;
  for_sizes([](size_t n, size_t shift) {
    const std::vector<float> values = rounded<T>(odd_numbers(n, 1));
    Buffer<T> x(values, shift), y(n, shift);
    const auto count = static_cast<int64_t>(n);
    ASSERT_EQ(relu({.type = Named<T>::kType, .n = count, .x = x.data(), .y = y.data()}), cudaSuccess);
    std::vector<float> want = values;
    for (float& v : want) v = relu_of(v);
    expect_same(y.values(), want);
    expect_same(x.values(), values);
    ASSERT_EQ(relu({.type = Named<T>::kType, .n = count, .x = x.data(), .y = x.data()}), cudaSuccess);
    expect_same(x.values(), want);
  });
}

TYPED_TEST(Elementwise, ReluGrad) {
  using T = TypeParam;
  for_sizes([](size_t n, size_t shift) {
    const std::vector<float> outputs = rounded<T>(odd_numbers(n, 1)), grads = rounded<T>(odd_numbers(n, 2));
    Buffer<T> y(outputs, shift), dy(grads, shift), dx(n, shift);
    const auto count = static_cast<int64_t>(n);
    const auto into = [&](Buffer<T>& result) {
      return activation_grad({.type = Named<T>::kType,
                              .activation = Activation::relu,
                              .n = count,
                              .x = y.data(),
                              .dy = dy.data(),
                              .dx = result.data()},
                             nullptr);
    };
    ASSERT_EQ(into(dx), cudaSuccess);
    std::vector<float> want = grads;
    for (size_t i = 0; i < n; ++i)
      if (outputs[i] <= 0) want[i] = 0;  // NaN lets through
    expect_same(dx.values(), want);
    ASSERT_EQ(into(dy), cudaSuccess);
    expect_same(dy.values(), want);
  });
}

/// GELU's arguments: numbers() spread over where it bends and where it does not, and a NaN.
std::vector<float> gelu_numbers(size_t n) {
  std::vector<float> v = numbers(n, 1);
  for (size_t i = 0; i < n; ++i) v[i] *= static_cast<float>(1 + i % 4);
  if (n > 2) v[1] = kNaN, v[2] = 0;
  return v;
}

TYPED_TEST(Elementwise, GeluAndItsGradient) {
  using T = TypeParam;
  for_sizes([](size_t n, size_t shift) {
    const std::vector<float> values = rounded<T>(gelu_numbers(n)), grads = rounded<T>(numbers(n, 2));
    Buffer<T> x(values, shift), dy(grads, shift), y(n, shift), dx(n, shift);
    const auto count = static_cast<int64_t>(n);
    const ActivateArgs forward{
        .type = Named<T>::kType, .activation = Activation::gelu, .n = count, .x = x.data(), .y = y.data()};
    ASSERT_EQ(activate(forward, nullptr), cudaSuccess);
    ASSERT_EQ(activation_grad({.type = Named<T>::kType,
                               .activation = Activation::gelu,
                               .n = count,
                               .x = x.data(),
                               .dy = dy.data(),
                               .dx = dx.data()},
                              nullptr),
              cudaSuccess);
    const auto near = [&](float got, double want, double f32) {
      return std::isnan(want) ? std::isnan(got)
                              : std::abs(got - want) <= f32 + Named<T>::kRounding * 1.001 * std::abs(want) + 0x1p-25;
    };
    for (size_t i = 0; i < n; ++i) {
      const double v = values[i], below = reference::normal_cdf(v), slope = v * reference::normal_density(v);
      ASSERT_TRUE(near(y[i], v * below, 1e-6 * below)) << v << " gives " << y[i];
      ASSERT_TRUE(near(dx[i], grads[i] * (below + slope), 1e-6 * (below + std::abs(slope)))) << v << " gives " << dx[i];
    }
    const std::vector<unsigned char> into_others = y.bytes();  // in place, the same
    ActivateArgs in_place = forward;
    in_place.y = x.data();
    ASSERT_EQ(activate(in_place, nullptr), cudaSuccess);
    EXPECT_EQ(x.bytes(), into_others);
  });
}

TYPED_TEST(Elementwise, Add) {
  using T = TypeParam;
  for_sizes([](size_t n, size_t shift) {
    const std::vector<float> left = rounded<T>(odd_numbers(n, 1)), right = rounded<T>(odd_numbers(n, 2));
    Buffer<T> a(left, shift), b(right, 0), y(n, shift);
    const AddArgs args{
        .type = Named<T>::kType, .n = static_cast<int64_t>(n), .a = a.data(), .b = b.data(), .y = y.data()};
    ASSERT_EQ(add(args, nullptr), cudaSuccess);
    std::vector<float> want(n);
    for (size_t i = 0; i < n; ++i) want[i] = rounded<T>(left[i] + right[i]);
    expect_same(y.values(), want);
    AddArgs other = args;
    other.y = b.data();  // in place
    ASSERT_EQ(add(other, nullptr), cudaSuccess);
    expect_same(b.values(), want);
  });
}

TYPED_TEST(Elementwise, CastToEveryType) {
  using T = TypeParam;
  const auto check = [](auto to) {
    using To = decltype(to);
    for_sizes([](size_t n, size_t shift) {
      const std::vector<float> values = rounded<T>(odd_numbers(n, 1));
      Buffer<T> x(values, shift);
      Buffer<To> y(n, 0);
      const CastArgs args{
          .from = Named<T>::kType, .to = Named<To>::kType, .n = static_cast<int64_t>(n), .x = x.data(), .y = y.data()};
      ASSERT_EQ(cast(args, nullptr), cudaSuccess);
      expect_same(y.values(), rounded<To>(values));
    });
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

TYPED_TEST(Elementwise, CopyRows) {
  using T = TypeParam;
  struct Case {
    int64_t rows, features, x_stride, y_stride;
    size_t shift = 0;
  };
  const Case cases[] = {{0, 5, 5, 16},      {1, 1, 1, 16},     {3, 0, 16, 16},    {3, 10, 10, 16}, {7, 10, 16, 10},
                        {5, 400, 400, 400}, {4, 24, 24, 32},   {4, 24, 32, 24},   {9, 21, 32, 48}, {9, 21, 21, 21},
                        {4, 24, 24, 32, 1}, {130, 40, 48, 40}, {2, 600, 600, 608}};
  for (const auto& [rows, features, x_stride, y_stride, shift] : cases) {
    SCOPED_TRACE(testing::Message() << rows << " x " << features << ", strides " << x_stride << " and " << y_stride);
    const std::vector<float> values = rounded<T>(odd_numbers(static_cast<size_t>(rows * x_stride), 1));
    std::vector<float> want(static_cast<size_t>(rows * y_stride));
    for (int64_t i = 0; i < rows * features; ++i)
      want[i / features * y_stride + i % features] = values[i / features * x_stride + i % features];
    Buffer<T> x(values, shift);
    on_host::in_all_orders([&] {
      Buffer<T> y(want.size(), shift);
      const CopyRowsArgs args{.type = Named<T>::kType,
                              .rows = rows,
                              .features = features,
                              .x_stride = x_stride,
                              .y_stride = y_stride,
                              .x = x.data(),
                              .y = y.data()};
      ASSERT_EQ(copy_rows(args, nullptr), cudaSuccess);
      expect_same(y.values(), want);
    });
  }
}

TEST(CopyRows, ReadsNothingOutside) {  // AddressSanitizer's to see: the source ends where its last row does
  const Operand<float> x(3 * 16 + 10, 1.0f);
  Buffer<float> y(4 * 16);
  const CopyRowsArgs args{
      .type = Type::f32, .rows = 4, .features = 10, .x_stride = 16, .y_stride = 16, .x = x.data(), .y = y.data()};
  ASSERT_EQ(copy_rows(args, nullptr), cudaSuccess);
  EXPECT_EQ(y[3 * 16 + 9], 1);
  EXPECT_EQ(y[3 * 16 + 10], 0);
}

TEST(ZeroPads, WritesPadsAlone) {
  for (const int64_t features : {0, 1, 10, 16}) {
    on_host::in_all_orders([&] {
      Buffer<__nv_bfloat16> y(numbers(3 * 16, 1));
      std::vector<float> want = y.values();
      for (int64_t i = 0; i < 3 * 16; ++i)
        if (i % 16 >= features) want[static_cast<size_t>(i)] = 0;
      const ZeroPadsArgs args{.type = Type::bf16, .rows = 3, .features = features, .stride = 16, .y = y.data()};
      ASSERT_EQ(zero_pads(args, nullptr), cudaSuccess);
      expect_same(y.values(), want);
    });
  }
}

TEST(ElementwiseArgs, RefusesWhatMakesNoSense) {
  Buffer<float> x(8), y(8);
  const auto no_type = static_cast<Type>(3);
  EXPECT_EQ(relu({.type = no_type, .n = 8, .x = x.data(), .y = y.data()}), cudaErrorInvalidValue);
  EXPECT_EQ(relu({.type = Type::f32, .n = -1, .x = x.data(), .y = y.data()}), cudaErrorInvalidValue);
  EXPECT_EQ(
      activate({.type = Type::f32, .activation = Activation::none, .n = 8, .x = x.data(), .y = y.data()}, nullptr),
      cudaErrorInvalidValue);
  EXPECT_EQ(cast({.from = Type::f32, .to = no_type, .n = 8, .x = x.data(), .y = y.data()}, nullptr),
            cudaErrorInvalidValue);
  CopyRowsArgs rows{
      .type = Type::f32, .rows = 1, .features = 8, .x_stride = 7, .y_stride = 8, .x = x.data(), .y = y.data()};
  EXPECT_EQ(copy_rows(rows, nullptr), cudaErrorInvalidValue);
  rows.x_stride = 8;
  rows.y_stride = 7;
  EXPECT_EQ(copy_rows(rows, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(zero_pads({.type = Type::f32, .rows = 1, .features = 9, .stride = 8, .y = y.data()}, nullptr),
            cudaErrorInvalidValue);
  for (const float v : y.values()) EXPECT_TRUE(std::isnan(v));
}

}  // namespace
}  // namespace ct::kernels
