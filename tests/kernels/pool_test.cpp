#include "pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/batch_norm.h"
#include "selftest/reference/conv.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> to_floats(const std::vector<double>& v) { return {v.begin(), v.end()}; }
std::vector<double> to_doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

struct Case {
  int64_t n, height, width, channels;
  int kernel;
  size_t shift = 0;
  int stride = kernel, pad = 0;
  reference::Pool pool() const { return {n, height, width, channels, kernel, stride, pad}; }
  size_t elements() const { return static_cast<size_t>(pool().inputs()); }
  size_t pooled() const { return static_cast<size_t>(pool().outputs()); }
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.n << " x " << c.height << " x " << c.width << " x " << c.channels << " by " << c.kernel << ", stride "
             << c.stride << ", pad " << c.pad << ", shifted by " << c.shift;
}
const Case kCases[] = {{1, 2, 2, 1, 2},    {2, 4, 6, 3, 2},  {1, 5, 7, 8, 2},    {2, 6, 4, 16, 2},   {1, 7, 5, 24, 3},
                       {2, 6, 6, 5, 3},    {1, 4, 4, 8, 1},  {2, 5, 4, 8, 4},    {1, 15, 16, 1, 15}, {1, 3, 3, 8, 5},
                       {0, 4, 4, 8, 2},    {1, 4, 4, 0, 2},  {2, 5, 5, 8, 2, 1}, {1, 1, 9, 4, 2},    {2, 14, 14, 16, 2},
                       {1, 9, 9, 8, 3, 1}, {4, 10, 10, 6, 2}};
/// Windows that overlap, hang over edges or leave pixels out.
const Case kOverlapping[] = {{2, 16, 16, 16, 3, 0, 2, 1}, {1, 15, 12, 8, 3, 0, 2, 1}, {1, 7, 9, 5, 3, 0, 2, 1},
                             {2, 8, 7, 24, 3, 1, 2, 1},   {1, 8, 9, 16, 3, 0, 2, 0},  {1, 6, 5, 8, 3, 0, 1, 1},
                             {1, 9, 8, 3, 5, 0, 2, 2},    {1, 11, 10, 8, 2, 0, 3, 0}, {1, 5, 5, 8, 4, 0, 3, 2},
                             {2, 1, 1, 16, 3, 0, 2, 1},   {1, 2, 2, 8, 3, 0, 2, 0},   {1, 5, 4, 8, 2, 0, 2, 1},
                             {1, 20, 16, 1, 15, 0, 4, 7}, {0, 9, 9, 8, 3, 0, 2, 1},   {1, 8, 8, 8, 2, 0, 1, 0}};

/// Coarse, so that windows have ties; some windows are cut by ReLU, and there are NaN, infinities and both zeros.
template <class T>
std::vector<float> image_of(const Case& c, uint32_t which) {
  std::vector<float> v = numbers(c.elements(), which);
  const float odd[] = {kNaN, kInfinity, -kInfinity, -0.0f, 0.0f, kNaN};
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = rounded<T>(i % 11 == which ? odd[i / 11 % 6] : std::round(v[i] * 2) / 2 - 0.5f);
  return v;
}

template <class T>
class Pool : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Pool, Types);

template <class T>
void expect_maxima_and_their_gradient(std::span<const Case> cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c);
    const std::vector<float> values = image_of<T>(c, 1);
    std::vector<uint8_t> want_argmax;
    const std::vector<float> want = to_floats(reference::max_pool(c.pool(), to_doubles(values), want_argmax));
    std::vector<float> grads = numbers(c.pooled(), 2);
    const bool overlap = c.stride < c.kernel;
    for (float& g : grads) g = overlap ? std::round(g * 4) / 4 : rounded<T>(g);  // quarters: sums of a few are exact
    const std::vector<float> want_dx =
        to_floats(reference::max_pool_gradient(c.pool(), to_doubles(grads), want_argmax));
    Buffer<T> x(values, c.shift), dy(grads, c.shift);
    on_host::in_all_orders([&] {
      Buffer<T> y(c.pooled(), c.shift), dx(c.elements(), c.shift);
      Buffer<uint8_t> argmax(c.pooled(), c.shift);
      const MaxPoolArgs args{.type = Named<T>::kType,
                             .n = c.n,
                             .height = c.height,
                             .width = c.width,
                             .channels = c.channels,
                             .kernel = c.kernel,
                             .stride = c.stride,
                             .pad = c.pad,
                             .x = x.data(),
                             .y = y.data(),
                             .argmax = argmax.data()};
      ASSERT_EQ(max_pool(args, nullptr), cudaSuccess);
      expect_same(y.values(), want);
      EXPECT_EQ(argmax.bytes(), want_argmax);
      const MaxPoolGradArgs grad{.type = Named<T>::kType,
                                 .n = c.n,
                                 .height = c.height,
                                 .width = c.width,
                                 .channels = c.channels,
                                 .kernel = c.kernel,
                                 .stride = c.stride,
                                 .pad = c.pad,
                                 .dy = dy.data(),
                                 .argmax = argmax.data(),
                                 .dx = dx.data()};
      ASSERT_EQ(max_pool_grad(grad, nullptr), cudaSuccess);
      expect_same(dx.values(), want_dx);
    });
  }
}
TYPED_TEST(Pool, MaximaAndTheirGradient) { expect_maxima_and_their_gradient<TypeParam>(kCases); }
TYPED_TEST(Pool, MaximaOfOverlappingWindowsAndTheirGradient) {
  expect_maxima_and_their_gradient<TypeParam>(kOverlapping);
}

TEST(MaxPool, FirstOfEqualsWinsAndNaNOnlyFromTheFirstPlace) {
  const std::vector<float> windows = {1, 1, 1, 1, 0, 2, 2, 1, -0.0f, 0, 0, -0.0f, kNaN, 3, 4, 5, 1, kNaN, 3, kNaN};
  Buffer<float> y(5);
  Buffer<uint8_t> argmax(5);
  Buffer<float> x(windows);  // five images of 2x2
  const MaxPoolArgs args{.type = Type::f32,
                         .n = 5,
                         .height = 2,
                         .width = 2,
                         .channels = 1,
                         .kernel = 2,
                         .stride = 2,
                         .pad = 0,
                         .x = x.data(),
                         .y = y.data(),
                         .argmax = argmax.data()};
  ASSERT_EQ(max_pool(args, nullptr), cudaSuccess);
  expect_same(y.values(), {1, 2, -0.0f, kNaN, 3});
  EXPECT_EQ(argmax.bytes(), (std::vector<unsigned char>{0, 1, 0, 0, 2}));
}

struct AverageCase {
  int64_t n, pixels, channels, stride;
  size_t shift = 0;
};
const AverageCase kAverages[] = {{1, 1, 1, 1},      {2, 64, 64, 64},  {3, 49, 24, 32}, {2, 17, 10, 16},
                                 {1, 16, 70, 80},   {2, 5, 130, 144}, {0, 4, 8, 16},   {1, 100, 3, 16},
                                 {2, 9, 16, 16, 1}, {1, 4, 0, 16},    {2, 33, 8, 21}};

TYPED_TEST(Pool, AveragesInOneOrderAndTheirGradient) {
  using T = TypeParam;
  for (const auto& [n, pixels, channels, stride, shift] : kAverages) {
    SCOPED_TRACE(testing::Message() << n << " x " << pixels << " x " << channels << ", stride " << stride
                                    << ", shifted by " << shift);
    std::vector<float> values = numbers(static_cast<size_t>(n * pixels * channels), 1);
    for (float& v : values) v = rounded<T>(v + 1);
    if (values.size() > 20) values[20] = kNaN;
    const std::vector<double> means = reference::average_pool(n, pixels, channels, to_doubles(values));
    const float scale = 1 / static_cast<float>(pixels);
    std::vector<float> want(static_cast<size_t>(n * stride)), grads(want.size(), kNaN), want_dx(values.size());
    const std::vector<float> some = numbers(want.size(), 2);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < channels; ++c) {
        float lanes[16] = {}, sum = 0;
        for (int64_t p = 0; p < pixels; ++p)
          lanes[p % 16] += values[static_cast<size_t>((i * pixels + p) * channels + c)];
        for (const float lane : lanes) sum += lane;
        const auto at = static_cast<size_t>(i * stride + c);
        const double mean = means[static_cast<size_t>(i * channels + c)];
        EXPECT_TRUE(std::isnan(mean) || std::fabs(sum * scale - mean) < 4e-6);
        want[at] = rounded<T>(sum * scale);
        grads[at] = rounded<T>(some[at]);
        for (int64_t p = 0; p < pixels; ++p)
          want_dx[static_cast<size_t>((i * pixels + p) * channels + c)] = rounded<T>(grads[at] * scale);
      }
    Buffer<T> x(values, shift), dy(grads, shift);
    on_host::in_all_orders([&] {
      Buffer<T> y(want.size(), shift), dx(values.size(), shift);
      const AveragePoolArgs args{.type = Named<T>::kType,
                                 .n = n,
                                 .pixels = pixels,
                                 .channels = channels,
                                 .y_stride = stride,
                                 .x = x.data(),
                                 .y = y.data()};
      ASSERT_EQ(average_pool(args, nullptr), cudaSuccess);
      expect_same(y.values(), want);
      const AveragePoolGradArgs grad{.type = Named<T>::kType,
                                     .n = n,
                                     .pixels = pixels,
                                     .channels = channels,
                                     .dy_stride = stride,
                                     .dy = dy.data(),
                                     .dx = dx.data()};
      ASSERT_EQ(average_pool_grad(grad, nullptr), cudaSuccess);
      expect_same(dx.values(), want_dx);
    });
  }
}

TEST(PoolArgs, RefusesWhatMakesNoSense) {
  Buffer<float> x(16), y(16);
  Buffer<uint8_t> argmax(16);
  MaxPoolArgs pool{.type = Type::f32,
                   .n = 1,
                   .height = 4,
                   .width = 4,
                   .channels = 1,
                   .kernel = 2,
                   .stride = 2,
                   .pad = 0,
                   .x = x.data(),
                   .y = y.data(),
                   .argmax = argmax.data()};
  struct Window {
    int kernel, stride, pad;
  };
  const Window senseless[] = {{0, 1, 0}, {16, 2, 0}, {3, 0, 1}, {3, -1, 1}, {3, 2, 2}, {3, 2, -1}};  // 16: places in u8
  for (const auto& [kernel, stride, pad] : senseless) {
    pool.kernel = kernel, pool.stride = stride, pool.pad = pad;
    EXPECT_EQ(max_pool(pool, nullptr), cudaErrorInvalidValue);
  }
  MaxPoolGradArgs grad{.type = Type::f32,
                       .n = 1,
                       .height = 4,
                       .width = 4,
                       .channels = 1,
                       .kernel = 2,
                       .stride = 2,
                       .pad = 0,
                       .dy = x.data(),
                       .argmax = argmax.data(),
                       .dx = y.data()};
  for (const auto& [kernel, stride, pad] : senseless) {
    grad.kernel = kernel, grad.stride = stride, grad.pad = pad;
    EXPECT_EQ(max_pool_grad(grad, nullptr), cudaErrorInvalidValue);
  }
  const AveragePoolArgs average{
      .type = Type::f32, .n = 1, .pixels = 0, .channels = 1, .y_stride = 1, .x = x.data(), .y = y.data()};
  EXPECT_EQ(average_pool(average, nullptr), cudaErrorInvalidValue);
  const AveragePoolGradArgs spread{
      .type = Type::f32, .n = 1, .pixels = 4, .channels = 2, .dy_stride = 1, .dy = x.data(), .dx = y.data()};
  EXPECT_EQ(average_pool_grad(spread, nullptr), cudaErrorInvalidValue);
  for (const float v : y.values()) EXPECT_TRUE(std::isnan(v));
}

// Refused before anything is launched: there is no memory to read or write.
TEST(PoolArgs, RefusesMoreThan31BitsCount) {
  constexpr int64_t kMany = int64_t{1} << 32;
  MaxPoolArgs pool = {};
  pool.n = kMany, pool.height = pool.width = pool.kernel = pool.stride = 2, pool.channels = 1;
  EXPECT_EQ(max_pool(pool, nullptr), cudaErrorInvalidValue);
  MaxPoolGradArgs grad = {};
  grad.n = 1, grad.height = kMany, grad.width = 3, grad.kernel = grad.stride = 2, grad.channels = 4;
  EXPECT_EQ(max_pool_grad(grad, nullptr), cudaErrorInvalidValue);
  grad.kernel = 3, grad.pad = 1;
  EXPECT_EQ(max_pool_grad(grad, nullptr), cudaErrorInvalidValue);
  AveragePoolGradArgs spread = {};
  spread.n = 1, spread.pixels = kMany, spread.channels = spread.dy_stride = 4;
  EXPECT_EQ(average_pool_grad(spread, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ct::kernels
