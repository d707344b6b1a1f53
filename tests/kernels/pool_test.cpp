#include "pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "buffer.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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

template <class T>
class AveragePool : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(AveragePool, Types);

/// Rows of whole accesses and not, with pads of NaN in the gradient's.
TYPED_TEST(AveragePool, SumsInOneOrder) {
  using T = TypeParam;
  struct Case {
    int64_t n, pixels, channels, stride;
  };
  for (const auto& [n, pixels, channels, stride] :
       {Case{1, 1, 1, 1}, {3, 49, 24, 32}, {2, 17, 10, 16}, {1, 16, 70, 80}, {2, 5, 130, 144}, {2, 33, 8, 21}}) {
    SCOPED_TRACE(testing::Message() << n << " x " << pixels << " x " << channels << ", stride " << stride);
    std::vector<float> values = numbers(static_cast<size_t>(n * pixels * channels), 1);
    for (float& v : values) v = rounded<T>(v + 1);
    if (values.size() > 20) values[20] = kNaN;
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
        want[at] = rounded<T>(sum * scale);
        grads[at] = rounded<T>(some[at]);
        for (int64_t p = 0; p < pixels; ++p)
          want_dx[static_cast<size_t>((i * pixels + p) * channels + c)] = rounded<T>(grads[at] * scale);
      }
    Buffer<T> x(values), dy(grads), y(want.size()), dx(values.size());
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
  }
}

}  // namespace
}  // namespace ct::kernels
