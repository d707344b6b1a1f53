#include "fff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/activation.h"
#include "selftest/reference/fff.h"
#include "typed.h"

namespace ct::kernels {
namespace {

struct Case {
  int64_t rows, stride;
  FffTrees trees;
  size_t shift = 0;
};
const Case kCases[] = {{9, 16, {1, 3, 2}}, {8, 255, {1, 7, 2}}, {3, 340, {1, 3, 4}, 1},
                       {1, 64, {3, 1, 4}}, {5, 40, {1, 0, 40}}, {0, 16, {1, 3, 2}}};

template <class T>
class FffKernel : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(FffKernel, Types);

/// Rows of `width` numbers that T holds, and in memory with pads that must not count.
template <class T>
std::vector<double> fill(Buffer<T>& to, const Case& c, uint32_t which) {
  const int64_t width = c.trees.width();
  const std::vector<float> dense = rounded<T>(numbers(static_cast<size_t>(c.rows * width), which));
  for (size_t i = 0; i < dense.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    to.at(static_cast<size_t>(at / width * c.stride + at % width)) = from_float<T>(dense[i]);
  }
  return {dense.begin(), dense.end()};
}

/// What is not visited and the pads are 0 exactly.
template <class T, class Tolerance>
void expect_rows(const Buffer<T>& got, const std::vector<double>& want, const Case& c, Tolerance tolerance) {
  const int64_t width = c.trees.width();
  for (size_t i = 0; i < got.size(); ++i) {
    const auto at = static_cast<int64_t>(i), column = at % c.stride;
    const auto dense = static_cast<size_t>(at / c.stride * width + column);
    if (column >= width || want[dense] == 0)
      ASSERT_EQ(got[i], 0) << "element " << i;
    else
      ASSERT_NEAR(got[i], want[dense], tolerance(dense) + 1.01 * Named<T>::kRounding * std::abs(want[dense]) + 1e-7)
          << "element " << i;
  }
}

TYPED_TEST(FffKernel, IsTheReferencesForwardAndBackward) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, depth " << c.trees.depth << ", fan-out " << c.trees.fanout);
    const auto size = static_cast<size_t>(c.rows * c.stride);
    Buffer<T> x(size, c.shift), dy(size, c.shift);
    const std::vector<double> sums = fill(x, c, 1), d = fill(dy, c, 2);
    const std::vector<double> want = reference::tree_gelu(c.trees, sums),
                              gradient = reference::tree_gelu_gradient(c.trees, sums, d);
    on_host::in_all_orders([&] {
      Buffer<T> y(size, c.shift), dx(size, c.shift);
      ASSERT_EQ(tree_gelu({.type = Named<T>::kType,
                           .rows = c.rows,
                           .stride = c.stride,
                           .trees = c.trees,
                           .x = x.data(),
                           .y = y.data()},
                          nullptr),
                cudaSuccess);
      expect_rows(y, want, c, [&](size_t i) { return reference::activation_errors(Activation::gelu, sums[i]).value; });
      ASSERT_EQ(tree_gelu_grad({.type = Named<T>::kType,
                                .rows = c.rows,
                                .stride = c.stride,
                                .trees = c.trees,
                                .x = x.data(),
                                .dy = dy.data(),
                                .dx = dx.data()},
                               nullptr),
                cudaSuccess);
      expect_rows(dx, gradient, c, [&](size_t i) {
        return std::abs(d[i]) * reference::activation_errors(Activation::gelu, sums[i]).derivative;
      });
    });
  }
}

TEST(Fff, RefusesWhatMakesNoSense) {
  struct Problem {
    int64_t rows = 1, stride = 16;
    FffTrees trees = {1, 3, 2};
    Type type = Type::f32;
  };
  const auto refused = [&](auto change) {
    Problem p;
    change(p);
    return tree_gelu({.type = p.type, .rows = p.rows, .stride = p.stride, .trees = p.trees}, nullptr) ==
               cudaErrorInvalidValue &&
           tree_gelu_grad({.type = p.type, .rows = p.rows, .stride = p.stride, .trees = p.trees}, nullptr) ==
               cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](auto& p) { p.type = static_cast<Type>(7); }));
  EXPECT_TRUE(refused([](auto& p) { p.rows = -1; }));
  EXPECT_TRUE(refused([](auto& p) { p.stride = 14; }));
  EXPECT_TRUE(refused([](auto& p) { p.trees.count = 0; }));
  EXPECT_TRUE(refused([](auto& p) { p.trees.count = 2; }));
  EXPECT_TRUE(refused([](auto& p) { p.trees.depth = -1; }));
  EXPECT_TRUE(refused([](auto& p) { p.trees.depth = 31; }));
  EXPECT_TRUE(refused([](auto& p) { p.trees.fanout = 1; }));
  EXPECT_TRUE(refused([](auto& p) { p.trees.fanout = 4; }));
}

}  // namespace
}  // namespace ct::kernels
