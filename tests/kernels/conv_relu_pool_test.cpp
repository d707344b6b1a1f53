#include "conv_relu_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/conv.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<double> to_doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

struct Case {
  int64_t n, in, height, width, out;
  int kernel;
  bool planar = false;
  size_t shift = 0;
  ConvReluPoolShape shape(Type type) const { return {n, in, height, width, out, kernel, planar, type}; }
  reference::Conv conv() const { return {n, in, height, width, out, kernel, 1, 0}; }
  int64_t windows() const { return (height - kernel + 1) / 2 * ((width - kernel + 1) / 2); }
  size_t image() const { return static_cast<size_t>(n * in * height * width); }
  size_t weights() const { return static_cast<size_t>(out * kernel * kernel * in); }
  size_t pooled() const { return static_cast<size_t>(n * windows() * out); }
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.n << " x " << c.in << " x " << c.height << " x " << c.width << " -> " << c.out << ", kernel "
             << c.kernel << (c.planar ? ", planar" : ", NHWC") << ", shifted by " << c.shift;
}
constexpr bool kPlanar = true, kNhwc = false;
const Case kCases[] = {
    {1, 3, 32, 32, 6, 5, kPlanar},    // the tutorial network's
    {2, 6, 14, 14, 16, 5},            //
    {1, 1, 2, 2, 1, 1},               // one window
    {2, 2, 5, 5, 3, 5},               // no window
    {1, 4, 3, 5, 2, 3, kPlanar},      // none in height
    {0, 3, 8, 8, 4, 3},               // no image
    {2, 4, 9, 10, 5, 3, kPlanar},     // odd rows and columns
    {2, 5, 10, 9, 7, 5},              //
    {1, 4, 8, 8, 4, 3, kNhwc, 1},     // unaligned
    {1, 4, 8, 12, 3, 5, kPlanar, 1},  //
    {3, 1, 7, 6, 2, 2, kPlanar},      // even kernels
    {2, 2, 8, 9, 3, 4},               //
    {1, 3, 6, 70, 2, 3},              // several tiles in a row
    {1, 2, 5, 45, 2, 5, kPlanar},     //
    {1, 20, 6, 6, 18, 3},             // more channels than slices
    {1, 9, 17, 16, 2, 15},            // the largest kernel
    {1, 2, 16, 17, 9, 15, kPlanar},   //
};

const Case kManyImages[] = {
    {16, 1, 40, 40, 2, 5}, {14, 2, 44, 44, 2, 3, kPlanar}, {14, 1, 44, 45, 1, 2}, {40, 1, 48, 48, 1, 1}};
/// Of these every order of threads and blocks is tested.
const Case kInAllOrders[] = {{1, 4, 7, 8, 3, 5, kPlanar}, {2, 5, 5, 6, 2, 3}, {1, 9, 3, 4, 17, 2}};

using Bytes = std::vector<unsigned char>;

/// -1, -1/2, 0, 1/2 or 1.
std::vector<float> coarse(size_t n, uint32_t which) {
  std::vector<float> v = numbers(n, which);
  for (float& x : v) x = std::round(x) / 2;
  return v;
}
template <class T>
std::vector<float> rounded_numbers(size_t n, uint32_t which) {
  return rounded<T>(numbers(n, which));
}

/// The tensor as the kernel takes it, of NHWC values.
std::vector<float> laid_out(const Case& c, const std::vector<float>& nhwc) {
  if (!c.planar) return nhwc;
  std::vector<float> x(nhwc.size());
  const int64_t pixels = c.height * c.width;
  for (int64_t i = 0; i < c.n; ++i)
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t k = 0; k < c.in; ++k)
        x[static_cast<size_t>((i * c.in + k) * pixels + p)] = nhwc[static_cast<size_t>((i * pixels + p) * c.in + k)];
  return x;
}

template <class T>
struct Forward {
  Forward(const Case& c, const std::vector<float>& nhwc, const std::vector<float>& weights,
          const std::vector<float>& bias)
      : c(c), x(laid_out(c, nhwc), c.shift), w(weights, c.shift), b(bias, c.shift) {}
  void run(Buffer<T>& y, Buffer<uint8_t>& argmax) {
    const ConvReluPoolArgs args{.shape = c.shape(Named<T>::kType),
                                .x = x.data(),
                                .w = w.data(),
                                .b = b.data(),
                                .y = y.data(),
                                .argmax = argmax.data()};
    ASSERT_EQ(conv_relu_pool(args, nullptr), cudaSuccess);
  }
  Case c;
  Buffer<T> x, w;
  Buffer<float> b;
};

template <class T>
struct Backward {
  Backward(const Case& c, const std::vector<float>& nhwc, const std::vector<float>& weights,
           const std::vector<float>& gradient, const std::vector<uint8_t>& argmax)
      : c(c),
        x(laid_out(c, nhwc), c.shift),
        w(weights, c.shift),
        dy(gradient, c.shift),
        argmax(std::vector<float>(argmax.begin(), argmax.end()), c.shift) {}
  void grad_weights(Buffer<float>& dw, Buffer<float>& db) {
    const ConvReluPoolShape shape = c.shape(Named<T>::kType);
    Buffer<float> workspace(conv_relu_pool_grad_weights_workspace(shape) / sizeof(float));  // of NaN
    const ConvReluPoolGradWArgs args{.shape = shape,
                                     .x = x.data(),
                                     .dy = dy.data(),
                                     .argmax = argmax.data(),
                                     .dw = dw.data(),
                                     .db = db.data(),
                                     .workspace = workspace.data()};
    ASSERT_EQ(conv_relu_pool_grad_weights(args, nullptr), cudaSuccess);
  }
  void grad_input(Buffer<T>& dx) {
    const ConvReluPoolGradXArgs args{
        .shape = c.shape(Named<T>::kType), .w = w.data(), .dy = dy.data(), .argmax = argmax.data(), .dx = dx.data()};
    ASSERT_EQ(conv_relu_pool_grad_input(args, nullptr), cudaSuccess);
  }
  Case c;
  Buffer<T> x, w, dy;
  Buffer<uint8_t> argmax;
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

void expect_near(const std::vector<float>& got, const std::vector<double>& want, const std::vector<double>& bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(got[i] - want[i]), bound[i]) << i << ": " << got[i] << ", not " << want[i];
}

std::vector<double> magnitudes(std::vector<double> v) {
  for (double& x : v) x = std::fabs(x);
  return v;
}

template <class T>
class ConvReluPool : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(ConvReluPool, Types);

// Multiples of 1/4 below 2^10: no sum rounds, so that equal sums tie in any order of summation.
TYPED_TEST(ConvReluPool, ExactSumsGiveExactMaximaAndTheFirstOfEquals) {
  using T = TypeParam;
  size_t ties = 0, cut = 0;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c);
    const std::vector<float> x = coarse(c.image(), 1), w = coarse(c.weights(), 2),
                             b = coarse(static_cast<size_t>(c.out), 3);
    std::vector<uint8_t> argmax;
    const std::vector<double> y =
        reference::conv_relu_pool(c.conv(), to_doubles(x), to_doubles(w), to_doubles(b), argmax);
    const std::vector<double> sums = reference::conv2d(c.conv(), to_doubles(x), to_doubles(w), to_doubles(b));
    const reference::Conv conv = c.conv();
    std::vector<float> want(y.begin(), y.end());
    for (size_t i = 0; i < y.size(); ++i) {
      cut += argmax[i] == 4;
      const auto o = static_cast<int64_t>(i) % c.out, window = static_cast<int64_t>(i) / c.out;
      const int64_t pw = conv.out_width() / 2, ph = conv.out_height() / 2;
      int best = 0;
      for (int64_t place = 0; place < 4; ++place) {
        const int64_t row = window / pw % ph * 2 + place / 2, column = window % pw * 2 + place % 2;
        best += sums[static_cast<size_t>(
                    ((window / pw / ph * conv.out_height() + row) * conv.out_width() + column) * c.out + o)] == y[i];
      }
      ties += best > 1 && y[i] > 0;
    }
    Buffer<T> got(c.pooled(), c.shift);
    Buffer<uint8_t> places(c.pooled(), c.shift);
    Forward<T>(c, x, w, b).run(got, places);
    expect_same(got.values(), rounded<T>(want));
    EXPECT_EQ(places.bytes(), argmax);
  }
  EXPECT_GT(ties, 50u);
  EXPECT_GT(cut, 50u);
}

template <class T>
Bytes expect_sums(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const std::vector<float> x = rounded_numbers<T>(c.image(), 1), w = rounded_numbers<T>(c.weights(), 2),
                           b = numbers(static_cast<size_t>(c.out), 3);
  std::vector<uint8_t> argmax, of_magnitudes;
  const std::vector<double> y =
      reference::conv_relu_pool(c.conv(), to_doubles(x), to_doubles(w), to_doubles(b), argmax);
  // Of every place |b| + sum |x w| bounds what is rounded, so the largest of the window does.
  const std::vector<double> largest = reference::conv_relu_pool(
      c.conv(), magnitudes(to_doubles(x)), magnitudes(to_doubles(w)), magnitudes(to_doubles(b)), of_magnitudes);
  const double terms = static_cast<double>(c.kernel * c.kernel * c.in + 9);
  std::vector<double> bound(y.size());
  for (size_t i = 0; i < y.size(); ++i)
    bound[i] = largest[i] * terms * 0x1p-24 + std::fabs(y[i]) * Named<T>::kRounding * 1.01 + 0x1p-25;
  Buffer<T> got(c.pooled(), c.shift);
  Buffer<uint8_t> places(c.pooled(), c.shift);
  Forward<T>(c, x, w, b).run(got, places);
  expect_near(got.values(), y, bound);
  Bytes bytes = got.bytes();
  for (const unsigned char place : places.bytes()) bytes.push_back(place);
  return bytes;
}

TYPED_TEST(ConvReluPool, SumsAreWithinTheirRounding) {
  for (const Case& c : kCases) expect_sums<TypeParam>(c);
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
    SCOPED_TRACE(testing::Message() << many);
    const std::vector<float> x = numbers(many.image(), 1), w = numbers(many.weights(), 2),
                             b = numbers(static_cast<size_t>(many.out), 3);
    Case one = many;
    one.n = 1;
    Buffer<float> y(many.pooled()), y_one(one.pooled());
    Buffer<uint8_t> argmax(many.pooled()), argmax_one(one.pooled());
    Forward<float>(many, x, w, b).run(y, argmax);
    const int64_t last = many.n - 1;
    const std::vector<float> last_x(x.end() - static_cast<int64_t>(one.image()), x.end());
    Forward<float>(one, last_x, w, b).run(y_one, argmax_one);
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
  Forward<float>(c, windows, {1}, {0}).run(y, argmax);
  expect_same(y.values(), {1, 2, 0, kNaN, 3});
  EXPECT_EQ(argmax.bytes(), (std::vector<unsigned char>{0, 1, 4, 0, 2}));
}

template <class T>
struct Gradients {
  explicit Gradients(const Case& c)
      : c(c),
        x(rounded_numbers<T>(c.image(), 1)),
        w(rounded_numbers<T>(c.weights(), 2)),
        dy(rounded_numbers<T>(c.pooled(), 3)),
        argmax(some_argmax(c.pooled())),
        want(reference::conv_relu_pool_gradients(c.conv(), to_doubles(x), to_doubles(w), to_doubles(dy), argmax)),
        largest(reference::conv_relu_pool_gradients(c.conv(), magnitudes(to_doubles(x)), magnitudes(to_doubles(w)),
                                                    magnitudes(to_doubles(dy)), argmax)),
        backward(c, x, w, dy, argmax) {}

  Bytes expect_weights() {
    SCOPED_TRACE(testing::Message() << c);
    Buffer<float> dw(c.weights(), c.shift), db(static_cast<size_t>(c.out), c.shift);
    backward.grad_weights(dw, db);
    const auto terms = static_cast<double>(c.n * c.windows() + 1);
    expect_near(dw.values(), want.dw, bound(want.dw, largest.dw, terms, 0));
    expect_near(db.values(), want.db, bound(want.db, largest.db, terms, 0));
    Bytes bytes = dw.bytes();
    for (const unsigned char byte : db.bytes()) bytes.push_back(byte);
    return bytes;
  }
  Bytes expect_input() {
    SCOPED_TRACE(testing::Message() << c);
    Buffer<T> dx(c.image(), c.shift);
    backward.grad_input(dx);
    const double terms = std::pow(c.kernel / 2 + 1, 2) * static_cast<double>(c.out) + 16;
    expect_near(dx.values(), want.dx, bound(want.dx, largest.dx, terms, Named<T>::kRounding));
    return dx.bytes();
  }

 private:
  /// Of sums of so many terms, and of their rounding to the type; the last term: of subnormal halves.
  static std::vector<double> bound(const std::vector<double>& want, const std::vector<double>& largest, double terms,
                                   double rounding) {
    std::vector<double> bound(want.size());
    for (size_t i = 0; i < want.size(); ++i)
      bound[i] = largest[i] * terms * 0x1p-24 + std::fabs(want[i]) * rounding * 1.01 + (rounding > 0x1p-24) * 0x1p-25;
    return bound;
  }

  Case c;
  std::vector<float> x, w, dy;
  std::vector<uint8_t> argmax;
  reference::ConvGradients want, largest;
  Backward<T> backward;
};

TYPED_TEST(ConvReluPool, GradientsOfWeights) {
  for (const Case& c : kCases) Gradients<TypeParam>(c).expect_weights();
}

TYPED_TEST(ConvReluPool, GradientsOfWeightsByManyImages) {
  for (const Case& c : kManyImages) {
    EXPECT_GT(conv_relu_pool_grad_weights_workspace(c.shape(Type::f32)), 2 * c.weights() * sizeof(float));  // parts
    Gradients<TypeParam>(c).expect_weights();
  }
  Gradients<TypeParam>({1, 3, 9, 400, 2, 3}).expect_weights();  // tiles of an image
}

TYPED_TEST(ConvReluPool, GradientsOfInput) {
  for (const Case& c : kCases) Gradients<TypeParam>(c).expect_input();
}

TEST(ConvReluPoolOrder, OfThreadsAndBlocksChangesNoSumOverParts) {
  Gradients<float> gradients(kManyImages[0]);
  const Bytes first = gradients.expect_weights();
  on_host::in_all_orders([&] { EXPECT_EQ(gradients.expect_weights(), first); });
}

TEST(ConvReluPoolOrder, OfThreadsAndBlocksChangesNothing) {
  for (const Case& c : kInAllOrders) {
    SCOPED_TRACE(testing::Message() << c);
    Gradients<float> gradients(c);
    Bytes y, dw, dx;
    on_host::in_all_orders([&] {
      const auto expect_first = [](Bytes& first, const Bytes& got) {
        if (first.empty()) first = got;
        EXPECT_EQ(got, first);
      };
      expect_first(y, expect_sums<float>(c));
      expect_first(dw, gradients.expect_weights());
      expect_first(dx, gradients.expect_input());
    });
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
  Backward<float> backward(c, x, w, dy, argmax);
  on_host::in_all_orders([&] {
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
  });
}

// An image's gradient does not depend on the other images; channels beyond a staged piece included.
TEST(ConvReluPoolGradients, OfInputIsTheSameForOneImageAndForMany) {
  const Case many{90, 10, 8, 8, 70, 3};
  Case one = many;
  one.n = 1;
  const std::vector<float> x(many.image()), w = numbers(many.weights(), 2), dy = numbers(many.pooled(), 3);
  const std::vector<uint8_t> argmax = some_argmax(many.pooled());
  Buffer<float> dx(many.image()), dx_one(one.image());
  Backward<float>(many, x, w, dy, argmax).grad_input(dx);
  Backward<float>(one, {x.end() - static_cast<int64_t>(one.image()), x.end()}, w,
                  {dy.end() - static_cast<int64_t>(one.pooled()), dy.end()},
                  {argmax.end() - static_cast<int64_t>(one.pooled()), argmax.end()})
      .grad_input(dx_one);
  const std::vector<float> all = dx.values();
  expect_same(dx_one.values(), {all.end() - static_cast<int64_t>(one.image()), all.end()});
}

TEST(ConvReluPoolGradients, FewImagesNeedNoWorkspace) {
  EXPECT_EQ(conv_relu_pool_grad_weights_workspace({4, 3, 32, 32, 6, 5, kPlanar, Type::f32}), 0u);
  EXPECT_EQ(conv_relu_pool_grad_weights_workspace({4, 6, 14, 14, 16, 5, kNhwc, Type::f32}), 0u);
  EXPECT_GT(conv_relu_pool_grad_weights_workspace({512, 3, 32, 32, 6, 5, kPlanar, Type::f32}), 0u);
}

TEST(ConvReluPoolArguments, RefusesWhatMakesNoSense) {
  Buffer<float> x(64), y(64), dw(64);
  Buffer<uint8_t> argmax(64);
  const ConvReluPoolShape good{1, 1, 4, 4, 1, 3, kNhwc, Type::f32};
  std::vector<ConvReluPoolShape> bad(12, good);
  bad[0].n = -1;
  bad[1].in_channels = 0;
  bad[2].out_channels = 0;
  bad[3].kernel = 0;
  bad[4].kernel = 16;
  bad[5].height = 2;
  bad[6].width = 2;
  bad[7].type = static_cast<Type>(3);
  bad[8].in_channels = int64_t{1} << 40;
  bad[9].height = int64_t{1} << 40;
  bad[10].n = int64_t{1} << 40;
  bad[11].n = int64_t{1} << 28;
  bad[11].out_channels = 1 << 20;
  bad[11].in_channels = 1 << 20;
  for (size_t i = 0; i < bad.size(); ++i) {
    SCOPED_TRACE(i);
    const ConvReluPoolArgs forward{
        .shape = bad[i], .x = x.data(), .w = x.data(), .b = x.data(), .y = y.data(), .argmax = argmax.data()};
    const ConvReluPoolGradWArgs grad_w{.shape = bad[i],
                                       .x = x.data(),
                                       .dy = x.data(),
                                       .argmax = argmax.data(),
                                       .dw = dw.data(),
                                       .db = dw.data(),
                                       .workspace = nullptr};
    const ConvReluPoolGradXArgs grad_x{
        .shape = bad[i], .w = x.data(), .dy = x.data(), .argmax = argmax.data(), .dx = y.data()};
    EXPECT_EQ(conv_relu_pool(forward, nullptr), cudaErrorInvalidValue);
    if (i < 11) {
      EXPECT_EQ(conv_relu_pool_grad_weights(grad_w, nullptr), cudaErrorInvalidValue);
    }
    EXPECT_EQ(conv_relu_pool_grad_input(grad_x, nullptr), cudaErrorInvalidValue);
  }
  for (const float v : y.values()) EXPECT_TRUE(std::isnan(v));
  for (const float v : dw.values()) EXPECT_TRUE(std::isnan(v));
}

}  // namespace
}  // namespace ct::kernels
