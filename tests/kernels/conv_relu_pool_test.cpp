#include "conv_relu_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Of f32, NHWC.
struct Case {
  int64_t n, in, height, width, out;
  int kernel;
  ConvReluPoolShape shape() const { return {n, in, height, width, out, kernel, /*planar=*/false, Type::f32}; }
  size_t image() const { return static_cast<size_t>(n * in * height * width); }
  size_t weights() const { return static_cast<size_t>(out * kernel * kernel * in); }
  size_t pooled() const { return static_cast<size_t>(n * shape().pooled_height() * shape().pooled_width() * out); }
};

struct Forward {
  Forward(const Case& c, const std::vector<float>& image, const std::vector<float>& weights,
          const std::vector<float>& bias)
      : c(c), x(image), w(weights), b(bias) {}
  void run(Buffer<float>& y, Buffer<uint8_t>& argmax) {
    const ConvReluPoolArgs args{
        .shape = c.shape(), .x = x.data(), .w = w.data(), .b = b.data(), .y = y.data(), .argmax = argmax.data()};
    ASSERT_EQ(conv_relu_pool(args, nullptr), cudaSuccess);
  }
  Case c;
  Buffer<float> x, w, b;
};

struct Backward {
  Backward(const Case& c, const std::vector<float>& image, const std::vector<float>& weights,
           const std::vector<float>& gradient, const std::vector<uint8_t>& argmax)
      : c(c), x(image), w(weights), dy(gradient), argmax(std::vector<float>(argmax.begin(), argmax.end())) {}
  void grad_weights(Buffer<float>& dw, Buffer<float>& db) {
    Buffer<float> workspace(conv_relu_pool_grad_weights_workspace(c.shape()) / sizeof(float));  // of NaN
    ASSERT_EQ(conv_relu_pool_grad_weights(of_weights(dw, db, workspace.data()), nullptr), cudaSuccess);
  }
  void grad_input(Buffer<float>& dx) { ASSERT_EQ(conv_relu_pool_grad_input(of_input(dx), nullptr), cudaSuccess); }
  /// Both by one launch.
  cudaError_t grad(Buffer<float>& dw, Buffer<float>& db, Buffer<float>& dx) {
    return conv_relu_pool_grad({.weights = of_weights(dw, db, nullptr), .input = of_input(dx)}, nullptr);
  }
  Case c;
  Buffer<float> x, w, dy;
  Buffer<uint8_t> argmax;

 private:
  ConvReluPoolGradWArgs of_weights(Buffer<float>& dw, Buffer<float>& db, float* workspace) {
    return {.shape = c.shape(),
            .x = x.data(),
            .dy = dy.data(),
            .argmax = argmax.data(),
            .dw = dw.data(),
            .db = db.data(),
            .workspace = workspace};
  }
  ConvReluPoolGradXArgs of_input(Buffer<float>& dx) {
    return {.shape = c.shape(), .w = w.data(), .dy = dy.data(), .argmax = argmax.data(), .dx = dx.data()};
  }
};

/// A place for every output, a quarter of them cut by ReLU, some with a value that nobody should take for a place.
std::vector<uint8_t> some_argmax(size_t n) {
  std::vector<uint8_t> v(n);
  const std::vector<float> random = numbers(n, 9);
  for (size_t i = 0; i < n; ++i) {
    v[i] = static_cast<uint8_t>((random[i] + 2) / 4 * 5.3f);
    if (v[i] > 4) v[i] = 255;
  }
  return v;
}

/// The four sums of one output, in the order that the header states.
float sum_in_order(const Case& c, const std::vector<float>& x, const std::vector<float>& w, float b, int64_t image,
                   int64_t row, int64_t column, int64_t o) {
  const int64_t slices = std::min<int64_t>(c.in, 8);
  for (int64_t s = 0; s < slices; ++s) {
    float slice = 0;
    for (int64_t i = s; i < c.in; i += slices)
      for (int64_t ky = 0; ky < c.kernel; ++ky)
        for (int64_t kx = 0; kx < c.kernel; ++kx)
          slice = std::fma(x[static_cast<size_t>(((image * c.height + row + ky) * c.width + column + kx) * c.in + i)],
                           w[static_cast<size_t>(((o * c.kernel + ky) * c.kernel + kx) * c.in + i)], slice);
    b += slice;
  }
  return b;
}

// Enough images for four channels a thread, and one image of them alone: the same bits.
TEST(ConvReluPoolOrder, IsTheHeadersForFewImagesAndForMany) {
  for (const Case& many : {Case{240, 16, 4, 4, 5, 3}, Case{1100, 8, 4, 4, 16, 1}}) {
    SCOPED_TRACE(many.n);
    const std::vector<float> x = numbers(many.image(), 1), w = numbers(many.weights(), 2),
                             b = numbers(static_cast<size_t>(many.out), 3);
    Case one = many;
    one.n = 1;
    Buffer<float> y(many.pooled()), y_one(one.pooled());
    Buffer<uint8_t> argmax(many.pooled()), argmax_one(one.pooled());
    Forward(many, x, w, b).run(y, argmax);
    const int64_t last = many.n - 1;
    const std::vector<float> last_x(x.end() - static_cast<int64_t>(one.image()), x.end());
    Forward(one, last_x, w, b).run(y_one, argmax_one);
    const size_t begin = many.pooled() - one.pooled();
    const int64_t pw = (many.width - many.kernel + 1) / 2;
    for (size_t i = 0; i < one.pooled(); ++i) {
      const auto o = static_cast<int64_t>(i) % many.out, window = static_cast<int64_t>(i) / many.out;
      float best = 0;
      uint8_t place_of_best = 0;
      for (uint8_t place = 0; place < 4; ++place) {
        const float sum = sum_in_order(many, x, w, b[static_cast<size_t>(o)], last, window / pw * 2 + place / 2,
                                       window % pw * 2 + place % 2, o);
        if (place == 0 || sum > best) best = sum, place_of_best = place;
      }
      if (best <= 0) best = 0, place_of_best = 4;
      EXPECT_EQ(y[begin + i], best) << i;
      EXPECT_EQ(y_one[i], best) << i;
      EXPECT_EQ(argmax[begin + i], place_of_best) << i;
      EXPECT_EQ(argmax_one[i], place_of_best) << i;
    }
  }
}

// Kernel 1 with weight 1: sums are the image's own values.
TEST(ConvReluPoolWindows, NaNWinsOnlyFromTheFirstPlace) {
  const std::vector<float> windows = {1, 1, 1, 1, 0, 2, 2, 1, -1, 0, -0.0f, -2, kNaN, 3, 4, 5, 1, kNaN, 3, kNaN};
  const Case c{5, 1, 2, 2, 1, 1};
  Buffer<float> y(5);
  Buffer<uint8_t> argmax(5);
  Forward(c, windows, {1}, {0}).run(y, argmax);
  expect_same(y.values(), {1, 2, 0, kNaN, 3});
  EXPECT_EQ(argmax.bytes(), (std::vector<unsigned char>{0, 1, 4, 0, 2}));
}

/// No window, in height alone, and no image: no result, and gradients of nothing.
TEST(ConvReluPoolWindows, MayBeNone) {
  for (const Case& c : {Case{2, 2, 5, 5, 3, 5}, Case{1, 4, 3, 5, 2, 3}, Case{0, 3, 8, 8, 4, 3}}) {
    SCOPED_TRACE(c.in);
    const std::vector<float> x = numbers(c.image(), 1), w = numbers(c.weights(), 2);
    Buffer<float> y(0), dw(c.weights()), db(static_cast<size_t>(c.out)), dx(c.image());
    Buffer<uint8_t> argmax(0);
    Forward(c, x, w, numbers(db.size(), 3)).run(y, argmax);
    Backward backward(c, x, w, {}, {});
    backward.grad_weights(dw, db);
    backward.grad_input(dx);
    for (const Buffer<float>* gradient : {&dw, &db, &dx})
      expect_same(gradient->values(), std::vector<float>(gradient->size()));
  }
}

// A NaN in x or w reaches just what argmax touch, one in a gradient that ReLU cut nothing.
TEST(ConvReluPoolGradients, OtherPlacesAreNotMultiplied) {
  const Case c{2, 2, 6, 6, 2, 3};
  std::vector<float> x(c.image(), kNaN), w = numbers(c.weights(), 2), dy(c.pooled(), kNaN);
  std::vector<uint8_t> argmax(c.pooled(), 4);
  // Image 1, window (1, 0), channel 1: place 2, whose patch is rows 3 to 5, columns 0 to 2.
  const size_t at = ((1 * 2 + 1) * 2 + 0) * 2 + 1;
  argmax[at] = 2;
  dy[at] = 0.5f;
  for (size_t row = 3; row < 6; ++row)
    for (size_t column = 0; column < 3; ++column)
      for (size_t i = 0; i < 2; ++i) x[((6 + row) * 6 + column) * 2 + i] = static_cast<float>(row * 10 + column) + 1;
  for (size_t i = 0; i < c.weights() / 2; ++i) w[i] = kNaN;  // of channel 0
  Backward backward(c, x, w, dy, argmax);
  Buffer<float> dw(c.weights()), db(2), dx(c.image());
  backward.grad_weights(dw, db);
  backward.grad_input(dx);
  expect_same(db.values(), {0, 0.5f});
  std::vector<float> want_dw(c.weights()), want_dx(c.image());
  for (size_t ky = 0; ky < 3; ++ky)
    for (size_t kx = 0; kx < 3; ++kx)
      for (size_t i = 0; i < 2; ++i) {
        const size_t pixel = ((6 + 3 + ky) * 6 + kx) * 2 + i, weight = ((3 + ky) * 3 + kx) * 2 + i;
        want_dw[weight] = x[pixel] / 2;
        want_dx[pixel] = w[weight] / 2;
      }
  expect_same(dw.values(), want_dw);
  expect_same(dx.values(), want_dx);
}

// An image's gradient does not depend on the other images; channels beyond a staged piece included.
TEST(ConvReluPoolGradients, OfInputIsTheSameForOneImageAndForMany) {
  const Case many{90, 10, 8, 8, 70, 3};
  Case one = many;
  one.n = 1;
  const std::vector<float> x(many.image()), w = numbers(many.weights(), 2), dy = numbers(many.pooled(), 3);
  const std::vector<uint8_t> argmax = some_argmax(many.pooled());
  Buffer<float> dx(many.image()), dx_one(one.image());
  Backward(many, x, w, dy, argmax).grad_input(dx);
  Backward(one, {x.end() - static_cast<int64_t>(one.image()), x.end()}, w,
           {dy.end() - static_cast<int64_t>(one.pooled()), dy.end()},
           {argmax.end() - static_cast<int64_t>(one.pooled()), argmax.end()})
      .grad_input(dx_one);
  const std::vector<float> all = dx.values();
  expect_same(dx_one.values(), {all.end() - static_cast<int64_t>(one.image()), all.end()});
}

// Blocks of both have one size, whichever gradient needs the larger ones; no image, and no window, included.
TEST(ConvReluPoolGradients, HaveTheSameBitsByOneLaunch) {
  for (const Case& c : {Case{4, 6, 14, 14, 16, 5}, Case{2, 2, 6, 6, 2, 3}, Case{1, 10, 8, 8, 70, 3},
                        Case{3, 60, 5, 4, 1, 2}, Case{0, 3, 8, 8, 4, 3}, Case{2, 2, 5, 5, 3, 5}}) {
    SCOPED_TRACE(c.in);
    Backward backward(c, numbers(c.image(), 1), numbers(c.weights(), 2), numbers(c.pooled(), 3),
                      some_argmax(c.pooled()));
    Buffer<float> dw(c.weights()), db(static_cast<size_t>(c.out)), dx(c.image());
    Buffer<float> dw2(dw.size()), db2(db.size()), dx2(dx.size());
    backward.grad_weights(dw, db);
    backward.grad_input(dx);
    ASSERT_EQ(backward.grad(dw2, db2, dx2), cudaSuccess);
    EXPECT_EQ(dw2.bytes(), dw.bytes());
    EXPECT_EQ(db2.bytes(), db.bytes());
    EXPECT_EQ(dx2.bytes(), dx.bytes());
  }
}

TEST(ConvReluPoolGradients, FewImagesNeedNoWorkspace) {
  EXPECT_EQ(conv_relu_pool_grad_weights_workspace({4, 3, 32, 32, 6, 5, /*planar=*/true, Type::f32}), 0u);
  EXPECT_EQ(conv_relu_pool_grad_weights_workspace({4, 6, 14, 14, 16, 5, /*planar=*/false, Type::f32}), 0u);
  EXPECT_GT(conv_relu_pool_grad_weights_workspace({512, 3, 32, 32, 6, 5, /*planar=*/true, Type::f32}), 0u);
}

}  // namespace
}  // namespace ct::kernels
