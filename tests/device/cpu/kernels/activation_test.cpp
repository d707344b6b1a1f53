#include "device/cpu/kernels/activation.h"

#include "device/cpu/kernels/testing.h"
#include "selftest/reference/bf16.h"
#include "selftest/reference/gelu.h"

namespace ct::cpu {
namespace {

class Gelu : public KernelTest {};
CT_KERNEL_SUITE(Gelu);

constexpr double kUlp = 0x1p-24;

template <class T>
void gelu(const T* x, T* y, size_t n) {
  activate(Activation::gelu, x, y, static_cast<int64_t>(n));
}
template <class T>
void gelu_grad(const T* x, const T* dy, T* dx, size_t n) {
  activation_grad(Activation::gelu, x, dy, dx, static_cast<int64_t>(n));
}

/// Every stretch of the line where floats are as far apart, to where nothing changes any more.
std::vector<double> line() {
  std::vector<double> x{0};
  for (double v = 0x1p-30; v < 20; v *= 1.002) {
    x.push_back(static_cast<float>(v));
    x.push_back(static_cast<float>(-v));
  }
  return x;
}

/// What kernels/gelu-inl.h says.
TEST_P(Gelu, TheDistributionIsAsExactAsItSays) {
  const std::vector<double> numbers = line();
  Buffer<float> x(numbers), y(numbers.size());
  gelu(x.data(), y.data(), numbers.size());
  for (size_t i = 1; i < numbers.size(); ++i) {
    const double v = numbers[i], want = reference::normal_cdf(v);
    ASSERT_LE(std::abs(y[i] / v - want), 4e-7 + kUlp * want) << v;  // the product's own rounding
    if (v < -5.2) {
      ASSERT_EQ(y[i], 0) << v;
    }
  }
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(y.intact());
}

TEST_P(Gelu, TheGradientIsTheDerivative) {
  const std::vector<double> numbers = line(), ones(numbers.size(), 1);
  Buffer<float> x(numbers), dy(ones), dx(numbers.size());
  gelu_grad(x.data(), dy.data(), dx.data(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto one = [](const auto& v) { return reference::gelu(v)[0]; };
    ASSERT_NEAR(dx[i], reference::derivative(one, {numbers[i]}, 0), 5e-7) << numbers[i];
  }
  EXPECT_TRUE(dx.intact());
}

TEST_P(Gelu, NotANumberStaysOne) {
  Buffer<float> x(std::vector<double>(33, NAN)), y(33);
  gelu(x.data(), y.data(), 33);
  for (size_t i = 0; i < 33; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
}

/// bf16 is computed as f32 and rounded once; any number of elements, in place too.
TEST_P(Gelu, Bf16RoundsTheF32Result) {
  for (const size_t n : {1, 7, 16, 100}) {
    std::vector<double> numbers = normal(n, 1, 2), grads = normal(n, 2);
    for (double& v : numbers) v = reference::rounded_to_bf16(v);
    for (double& v : grads) v = reference::rounded_to_bf16(v);
    Buffer<float> x(numbers), dy(grads), y(n), dx(n);
    gelu(x.data(), y.data(), n);
    gelu_grad(x.data(), dy.data(), dx.data(), n);
    Buffer<uint16_t> half_x(n), half_dy(n);
    for (size_t i = 0; i < n; ++i) {
      half_x[i] = reference::to_bf16(numbers[i]);
      half_dy[i] = reference::to_bf16(grads[i]);
    }
    gelu_grad(half_x.data(), half_dy.data(), half_dy.data(), n);
    gelu(half_x.data(), half_x.data(), n);
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(half_x[i], reference::to_bf16(y[i]));
      EXPECT_EQ(half_dy[i], reference::to_bf16(dx[i]));
    }
    EXPECT_TRUE(half_x.intact() && half_dy.intact());
  }
}

/// Results that go past the caches are the same.
TEST_P(Gelu, LargeResultsAreTheSame) {
  const size_t n = (size_t{64} << 20) / sizeof(float) + 5, some = 1000;
  Buffer<float> x(n), y(n), few(some);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 97) / 16 - 3;
  gelu(x.data(), y.data(), n);
  for (const size_t begin : {size_t{0}, n / 2, n - some}) {
    gelu(x.data() + begin, few.data(), some);
    EXPECT_EQ(std::memcmp(y.data() + begin, few.data(), some * sizeof(float)), 0);
  }
  EXPECT_TRUE(y.intact());
}

}  // namespace
}  // namespace ct::cpu
