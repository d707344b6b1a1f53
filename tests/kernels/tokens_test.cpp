#include "tokens.h"

#include <gtest/gtest.h>

#include <cmath>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/tokens.h"
#include "typed.h"

namespace ct::kernels {
namespace {

using reference::TokenRows;

template <class T>
class Tokens : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Tokens, Types);

struct Case {
  TokenRows s;
  int64_t x_stride, stride;
  size_t shift = 0;
  int64_t x_rows() const { return s.n * (s.tokens - s.own()); }
};
const Case kCases[] = {{{3, 65, 48, true}, 48, 48},    {{2, 5, 7, true}, 16, 16},     {{17, 3, 21, true}, 21, 32},
                       {{35, 2, 16, true}, 16, 16},    {{2, 6, 20, false}, 32, 32},   {{2, 6, 5, false}, 5, 16},
                       {{1, 1, 1, true}, 16, 16},      {{2, 3, 24, true}, 32, 32, 1}, {{0, 3, 16, true}, 16, 16},
                       {{16, 4, 200, false}, 208, 208}};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.s.n << " x " << c.s.tokens << " x " << c.s.columns << (c.s.class_token ? " with" : " without")
             << " a class token, strides " << c.x_stride << " and " << c.stride;
}

/// Dense rows with zeros up to the stride.
std::vector<float> with_pads(const std::vector<double>& dense, int64_t columns, int64_t stride) {
  const auto row = static_cast<size_t>(columns);
  std::vector<float> v(dense.size() / row * static_cast<size_t>(stride));
  for (size_t i = 0; i < dense.size(); ++i)
    v[i / row * static_cast<size_t>(stride) + i % row] = static_cast<float>(dense[i]);
  return v;
}
template <class T>
std::vector<double> dense_numbers(int64_t rows, int64_t columns, uint32_t which) {
  const std::vector<float> v = rounded<T>(numbers(static_cast<size_t>(rows * columns), which));
  return {v.begin(), v.end()};
}

TYPED_TEST(Tokens, AreTheReferences) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c);
    const std::vector<double> x = dense_numbers<T>(c.x_rows(), c.s.columns, 1),
                              own = dense_numbers<T>(c.s.own(), c.s.columns, 2),
                              positions = dense_numbers<T>(c.s.tokens, c.s.columns, 3);
    std::vector<double> y = reference::tokens(c.s, x, own, positions);
    for (double& v : y) v = rounded<T>(static_cast<float>(v));
    const std::vector<float> want = with_pads(y, c.s.columns, c.stride);
    Buffer<T> from(with_pads(x, c.s.columns, c.x_stride), c.shift),
        first(with_pads(own, c.s.columns, c.stride), c.shift),
        added(with_pads(positions, c.s.columns, c.stride), c.shift);
    on_host::in_all_orders([&] {
      Buffer<T> to(want.size(), c.shift);
      const TokensArgs args{.type = Named<T>::kType,
                            .n = c.s.n,
                            .tokens = c.s.tokens,
                            .columns = c.s.columns,
                            .x_stride = c.x_stride,
                            .stride = c.stride,
                            .x = from.data(),
                            .class_token = c.s.class_token ? first.data() : nullptr,
                            .positions = added.data(),
                            .y = to.data()};
      ASSERT_EQ(tokens(args, nullptr), cudaSuccess);
      expect_same(to.values(), want);
    });
  }
}

/// Image i in lane i % 16, then lanes in order.
float sum_of_lanes(const std::vector<float>& terms) {
  float lanes[16] = {};
  for (size_t i = 0; i < terms.size(); ++i) lanes[i % 16] += terms[i];
  float sum = lanes[0];
  for (int lane = 1; lane < 16; ++lane) sum += lanes[lane];
  return sum;
}

TYPED_TEST(Tokens, GradientsAreTheReferencesAndSumsHaveTheirOrder) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c);
    const std::vector<double> dy = dense_numbers<T>(c.s.n * c.s.tokens, c.s.columns, 4);
    const reference::TokenGradients g = reference::token_gradients(c.s, dy);
    std::vector<double> sums;
    for (int64_t i = 0; i < c.s.tokens * c.s.columns; ++i) {
      std::vector<float> terms;
      for (int64_t n = 0; n < c.s.n; ++n)
        terms.push_back(static_cast<float>(dy[static_cast<size_t>(n * c.s.tokens * c.s.columns + i)]));
      sums.push_back(sum_of_lanes(terms));
      EXPECT_NEAR(sums.back(), g.dpositions[static_cast<size_t>(i)], 1e-4);
    }
    const std::vector<float> want = with_pads(sums, c.s.columns, c.stride);
    const std::vector<float> want_dx = with_pads(g.dx, c.s.columns, c.x_stride);
    Buffer<T> from(with_pads(dy, c.s.columns, c.stride), c.shift);
    on_host::in_all_orders([&] {
      Buffer<T> dx(want_dx.size(), c.shift);
      Buffer<float> dpositions(want.size()), dclass(static_cast<size_t>(c.stride));
      const TokensGradArgs args{.type = Named<T>::kType,
                                .n = c.s.n,
                                .tokens = c.s.tokens,
                                .columns = c.s.columns,
                                .x_stride = c.x_stride,
                                .stride = c.stride,
                                .dy = from.data(),
                                .dx = dx.data(),
                                .dclass_token = c.s.class_token ? dclass.data() : nullptr,
                                .dpositions = dpositions.data()};
      ASSERT_EQ(tokens_grad(args, nullptr), cudaSuccess);
      expect_same(dx.values(), want_dx);
      expect_same(dpositions.values(), want);
      if (c.s.class_token) expect_same(dclass.values(), {want.begin(), want.begin() + c.stride});
    });
  }
}

TEST(TokensArgs, RefusesWhatMakesNoSense) {
  Buffer<float> x(64), y(64), sums(64);
  const auto refused = [&](int64_t n, int64_t count, int64_t columns, int64_t x_stride, int64_t stride) {
    const TokensArgs forward{.type = Type::f32,
                             .n = n,
                             .tokens = count,
                             .columns = columns,
                             .x_stride = x_stride,
                             .stride = stride,
                             .x = x.data(),
                             .positions = x.data(),
                             .y = y.data()};
    const TokensGradArgs backward{.type = Type::f32,
                                  .n = n,
                                  .tokens = count,
                                  .columns = columns,
                                  .x_stride = x_stride,
                                  .stride = stride,
                                  .dy = x.data(),
                                  .dx = y.data(),
                                  .dpositions = sums.data()};
    const bool first = tokens(forward, nullptr) == cudaErrorInvalidValue;
    EXPECT_EQ(tokens_grad(backward, nullptr) == cudaErrorInvalidValue, first);
    return first;
  };
  EXPECT_FALSE(refused(0, 2, 8, 16, 16));
  EXPECT_TRUE(refused(-1, 2, 8, 16, 16));
  EXPECT_TRUE(refused(1, 0, 8, 16, 16));
  EXPECT_TRUE(refused(1, 2, 17, 16, 16));
  EXPECT_TRUE(refused(1, 2, 8, 7, 16));
  EXPECT_TRUE(refused(1, 2, 8, 16, 8));
  EXPECT_TRUE(refused(1, int64_t{1} << 31, 8, 16, 16));
  for (const float v : y.values()) EXPECT_TRUE(std::isnan(v));
}

}  // namespace
}  // namespace ct::kernels
