#include "sequence_pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/attention.h"
#include "typed.h"

namespace ct::kernels {
namespace {

struct Case {
  int64_t n, tokens, channels, stride, score_stride;
  size_t shift = 0;
};
const Case kCases[] = {
    {2, 5, 3, 16, 16}, {1, 40, 33, 33, 1}, {3, 1, 1, 4, 2, 1}, {1, 70, 300, 304, 16}, {0, 5, 3, 16, 16}};

template <class T>
class SequencePoolKernel : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(SequencePoolKernel, Types);

template <class T>
Buffer<T>& fill(Buffer<T>& to, const std::vector<float>& dense, int64_t row, int64_t stride) {
  for (size_t i = 0; i < dense.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    to.at(static_cast<size_t>(at / row * stride + at % row)) = from_float<T>(dense[i]);
  }
  return to;
}
template <class T>
std::vector<double> rounded_doubles(const std::vector<float>& v) {
  const std::vector<float> r = rounded<T>(v);
  return {r.begin(), r.end()};
}
template <class T>
void expect_rows(const Buffer<T>& got, const std::vector<double>& want, int64_t row, int64_t stride, double size) {
  for (size_t i = 0; i < got.size(); ++i) {
    const auto at = static_cast<int64_t>(i), column = at % stride;
    const double expected = column < row ? want[static_cast<size_t>(at / stride * row + column)] : 0;
    const double tolerance = column < row ? 2e-6 * size + 1.01 * Named<T>::kRounding * std::abs(expected) + 1e-7 : 0;
    ASSERT_NEAR(got[i], expected, tolerance) << "element " << i;
  }
}

TYPED_TEST(SequencePoolKernel, IsTheReferencesForwardAndBackward) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.n << " x " << c.tokens << " x " << c.channels);
    const auto size = [](auto... factors) { return static_cast<size_t>((factors * ...)); };
    const std::vector<float> of_x = numbers(size(c.n, c.tokens, c.channels), 1),
                             of_score = numbers(size(c.n, c.tokens), 2), of_dy = numbers(size(c.n, c.channels), 3);
    Buffer<T> x(size(c.n, c.tokens, c.stride), c.shift), score(size(c.n, c.tokens, c.score_stride), c.shift),
        dy(size(c.n, c.stride), c.shift);
    fill(x, of_x, c.channels, c.stride);
    fill(score, of_score, 1, c.score_stride);
    fill(dy, of_dy, c.channels, c.stride);
    const auto values = rounded_doubles<T>(of_x), scores = rounded_doubles<T>(of_score), d = rounded_doubles<T>(of_dy);
    const auto want = reference::sequence_pool(c.n, c.tokens, c.channels, values, scores);
    const auto gradients = reference::sequence_pool_gradients(c.n, c.tokens, c.channels, values, scores, d);
    const SequencePoolShape shape{Named<T>::kType, c.n, c.tokens, c.channels, c.stride, c.score_stride};
    on_host::in_all_orders([&] {
      Buffer<T> y(dy.size(), c.shift), dx(x.size(), c.shift), dscore(score.size(), c.shift);
      ASSERT_EQ(sequence_pool({.shape = shape, .x = x.data(), .score = score.data(), .y = y.data()}, nullptr),
                cudaSuccess);
      expect_rows(y, want, c.channels, c.stride, 2);
      ASSERT_EQ(sequence_pool_grad({.shape = shape,
                                    .x = x.data(),
                                    .score = score.data(),
                                    .dy = dy.data(),
                                    .dx = dx.data(),
                                    .dscore = dscore.data()},
                                   nullptr),
                cudaSuccess);
      expect_rows(dx, gradients.dx, c.channels, c.stride, 2);
      expect_rows(dscore, gradients.dscore, 1, c.score_stride, 4 * static_cast<double>(c.channels));
    });
  }
}

TEST(SequencePool, RefusesWhatMakesNoSense) {
  const SequencePoolShape good{Type::f32, 1, 2, 3, 16, 16};
  const auto refused = [&](auto change) {
    SequencePoolShape s = good;
    change(s);
    return sequence_pool({.shape = s}, nullptr) == cudaErrorInvalidValue &&
           sequence_pool_grad({.shape = s}, nullptr) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](auto& s) { s.type = static_cast<Type>(7); }));
  EXPECT_TRUE(refused([](auto& s) { s.n = -1; }));
  EXPECT_TRUE(refused([](auto& s) { s.tokens = 0; }));
  EXPECT_TRUE(refused([](auto& s) { s.tokens = 4097; }));
  EXPECT_TRUE(refused([](auto& s) { s.stride = 2; }));
  EXPECT_TRUE(refused([](auto& s) { s.score_stride = 0; }));
}

}  // namespace
}  // namespace ct::kernels
