#include "linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "buffer.h"
#include "run.h"
#include "tickets.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t n, in, out;
  int64_t x_stride, w_stride, y_stride;  // dx has w's, dw has x's
  size_t shift = 0;                      // of everything, off 16-byte alignment
};
std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.n << " rows, " << c.in << " (strides " << c.x_stride << " and " << c.w_stride << ") to " << c.out
            << " (" << c.y_stride << "), shifted by " << c.shift;
}
/// Padded as tensors are, dense, unaligned, no rows; one, several and many terms for each of the three sums; the last
/// takes four outputs a warp.
const Case kCases[] = {{1, 1, 1, 16, 16, 16},     {4, 84, 10, 96, 96, 16},    {5, 33, 6, 48, 64, 16},
                       {70, 5, 3, 16, 32, 16},    {3, 16, 20, 16, 16, 32},    {2, 1, 3, 1, 2, 3},
                       {9, 7, 5, 7, 8, 6},        {6, 40, 33, 40, 41, 33, 1}, {4, 30, 66, 32, 32, 66, 3},
                       {64, 10, 8, 16, 32, 8},    {65, 9, 8, 16, 16, 8, 2},   {3, 12, 65, 16, 16, 80},
                       {1, 300, 2, 304, 304, 16}, {0, 5, 3, 16, 16, 16},      {70, 20, 125, 32, 32, 128}};

/// T and the type of y and dy.
template <class X, class Y_>
struct Types {
  using T = X;
  using Y = Y_;
};
template <class>
class Linear : public testing::Test {};
using AllTypes = testing::Types<Types<float, float>, Types<__nv_bfloat16, __nv_bfloat16>, Types<__nv_bfloat16, float>,
                                Types<__half, __half>, Types<__half, float>>;
TYPED_TEST_SUITE(Linear, AllTypes);

using Matrix = std::vector<float>;

/// Numbers that T can hold, NaN in pads, where they must not matter.
template <class T>
Matrix matrix(int64_t rows, int64_t columns, int64_t stride, uint32_t which) {
  Matrix m = rounded<T>(numbers(static_cast<size_t>(rows * stride), which));
  for (size_t i = 0; i < m.size(); ++i)
    if (static_cast<int64_t>(i) % stride >= columns) m[i] = kNaN;
  return m;
}

float at(const Matrix& m, int64_t row, int64_t stride, int64_t column) {
  return m[static_cast<size_t>(row * stride + column)];
}

/// rows x columns of value(row, column), zeros in the pads.
template <class T, class Value>
Matrix padded(int64_t rows, int64_t columns, int64_t stride, Value value) {
  Matrix m(static_cast<size_t>(rows * stride));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) m[static_cast<size_t>(r * stride + c)] = rounded<T>(value(r, c));
  return m;
}

/// The order that linear.h promises for y: V elements to a lane, 32 lanes, halves onto halves.
template <int V, class Add>
float sum_by_packs(int64_t n, Add add) {
  float lanes[32] = {};
  for (int64_t i = 0; i < n; ++i) add(lanes[i / V % 32], i);
  for (int count = 16; count > 0; count /= 2)
    for (int l = 0; l < count; ++l) lanes[l] += lanes[l + count];
  return lanes[0];
}
/// And for the gradients.
template <class Add>
float sum_by_terms(int64_t terms, Add add) {
  const int64_t count = terms <= 8 ? 1 : terms <= 64 ? 8 : 32;
  float lanes[32] = {};
  for (int64_t k = 0; k < terms; ++k) add(lanes[k % count], k);
  for (int64_t l = 1; l < count; ++l) lanes[0] += lanes[l];
  return lanes[0];
}

template <class Pair>
struct Layer {
  using T = typename Pair::T;
  using Y = typename Pair::Y;
  static constexpr Type kType = Named<T>::kType, kOfY = Named<Y>::kType;
  explicit Layer(const Case& c)
      : c(c),
        x(matrix<T>(c.n, c.in, c.x_stride, 1)),
        w(matrix<T>(c.out, c.in, c.w_stride, 2)),
        dy(matrix<Y>(c.n, c.out, c.y_stride, 3)),
        b(numbers(static_cast<size_t>(c.out), 4)) {
    if (c.n > 60) x[0] = kNaN;  // passes the ReLU, too
  }

  Matrix y(bool relu) const {
    return padded<Y>(c.n, c.out, c.y_stride, [&](int64_t n, int64_t o) {
      const auto add = [&](float& sum, int64_t i) {
        sum = std::fma(at(x, n, c.x_stride, i), at(w, o, c.w_stride, i), sum);
      };
      const float y = sum_by_packs<Pack<T>::kSize>(c.in, add) + b[static_cast<size_t>(o)];
      return relu && y <= 0 ? 0 : y;
    });
  }
  Matrix dx() const {
    return padded<T>(c.n, c.in, c.w_stride, [&](int64_t n, int64_t i) {
      return sum_by_terms(c.out, [&](float& sum, int64_t o) {
        sum = std::fma(at(dy, n, c.y_stride, o), at(w, o, c.w_stride, i), sum);
      });
    });
  }
  /// Where x is the result of a ReLU.
  Matrix dz() const {
    Matrix dz = dx();
    for (int64_t n = 0; n < c.n; ++n)
      for (int64_t i = 0; i < c.in; ++i)
        if (at(x, n, c.x_stride, i) <= 0) dz[static_cast<size_t>(n * c.w_stride + i)] = 0;
    return dz;
  }
  Matrix dw() const {
    return padded<float>(c.out, c.in, c.x_stride, [&](int64_t o, int64_t i) {
      return sum_by_terms(
          c.n, [&](float& sum, int64_t n) { sum = std::fma(at(dy, n, c.y_stride, o), at(x, n, c.x_stride, i), sum); });
    });
  }
  Matrix db() const {
    return padded<float>(1, c.out, c.out, [&](int64_t, int64_t o) {
      return sum_by_terms(c.n, [&](float& sum, int64_t n) { sum += at(dy, n, c.y_stride, o); });
    });
  }

  Case c;
  Matrix x, w, dy, b;
};

TYPED_TEST(Linear, SumsInThePromisedOrder) {
  using L = Layer<TypeParam>;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c);
    const L layer(c);
    Buffer<typename L::T> x(layer.x, c.shift), w(layer.w, c.shift), dx(static_cast<size_t>(c.n * c.w_stride), c.shift);
    Buffer<typename L::Y> y(layer.dy.size(), c.shift), dy(layer.dy, c.shift);
    Buffer<float> b(layer.b, c.shift), dw(static_cast<size_t>(c.out * c.x_stride), c.shift), db(b.size(), c.shift);
    for (const bool relu : {false, true}) {
      ASSERT_EQ(linear({.type = L::kType,
                        .y_type = L::kOfY,
                        .n = c.n,
                        .in = c.in,
                        .out = c.out,
                        .x_stride = c.x_stride,
                        .w_stride = c.w_stride,
                        .y_stride = c.y_stride,
                        .relu = relu,
                        .x = x.data(),
                        .w = w.data(),
                        .b = b.data(),
                        .y = y.data()},
                       nullptr),
                cudaSuccess);
      expect_same(y.values(), layer.y(relu));
    }
    const LinearGradXArgs of_x{.type = L::kType,
                               .y_type = L::kOfY,
                               .n = c.n,
                               .in = c.in,
                               .out = c.out,
                               .w_stride = c.w_stride,
                               .dy_stride = c.y_stride,
                               .dx_stride = c.w_stride,
                               .w = w.data(),
                               .dy = dy.data(),
                               .dx = dx.data()};
    ASSERT_EQ(linear_grad_input(of_x, nullptr), cudaSuccess);
    expect_same(dx.values(), layer.dx());
    const LinearGradWArgs of_w{.type = L::kType,
                               .y_type = L::kOfY,
                               .n = c.n,
                               .in = c.in,
                               .out = c.out,
                               .x_stride = c.x_stride,
                               .dy_stride = c.y_stride,
                               .dw_stride = c.x_stride,
                               .x = x.data(),
                               .dy = dy.data(),
                               .dw = dw.data(),
                               .db = db.data()};
    ASSERT_EQ(linear_grad_weights(of_w, nullptr), cudaSuccess);
    expect_same(dw.values(), layer.dw());
    expect_same(db.values(), layer.db());
    for (const bool relu : {false, true}) {  // by one launch
      Buffer<typename L::T> dx2(dx.size(), c.shift), dz(dx.size(), c.shift);
      Buffer<float> dw2(dw.size(), c.shift), db2(db.size(), c.shift);
      LinearGradArgs both{.weights = of_w, .input = of_x, .dz = relu ? dz.data() : nullptr};
      both.input.dx = dx2.data();
      both.weights.dw = dw2.data();
      both.weights.db = db2.data();
      ASSERT_EQ(linear_grad(both, nullptr), cudaSuccess);
      expect_same(dx2.values(), layer.dx());
      expect_same(dw2.values(), layer.dw());
      expect_same(db2.values(), layer.db());
      if (relu) expect_same(dz.values(), layer.dz());
    }
  }
}

/// Whichever block is the last, launch after launch; a loss that is not finite makes all of the gradient NaN.
TEST(LinearLoss, HasTheBitsOfALaunchEach) {
  struct Results {
    Results(int64_t n, int64_t stride)
        : y(static_cast<size_t>(n * stride)),
          dlogits(y.size()),
          losses(static_cast<size_t>(n)),
          predicted(losses.size()),
          label_rank(losses.size()) {}
    auto bytes() {
      return std::tuple(y.bytes(), dlogits.bytes(), losses.bytes(), predicted.bytes(), label_rank.bytes());
    }
    Buffer<float> y, dlogits, losses;
    Buffer<int32_t> predicted, label_rank;
  };
  for (const auto& [n, in, out] : {std::tuple<int64_t, int64_t, int64_t>{1, 5, 2}, {4, 84, 10}, {8, 16, 100}})
    for (const bool broken : {false, true}) {
      SCOPED_TRACE(testing::Message() << n << " rows, " << in << " to " << out << (broken ? ", broken" : ""));
      const int64_t stride = out + 6;
      const auto rows = static_cast<size_t>(n);
      Buffer<float> x(numbers(rows * static_cast<size_t>(in), 1)), w(numbers(static_cast<size_t>(in * out), 2)),
          b(numbers(static_cast<size_t>(out), 3));
      Buffer<int32_t> labels(rows);
      for (size_t i = 0; i < rows; ++i) labels.at(i) = static_cast<int32_t>(static_cast<int64_t>(i) % out);
      if (broken) x.at(0) = kNaN;
      Tickets tickets;
      const auto args = [&](Results& to) {
        return LinearLossArgs{.linear = {.type = Type::f32,
                                         .y_type = Type::f32,
                                         .n = n,
                                         .in = in,
                                         .out = out,
                                         .x_stride = in,
                                         .w_stride = in,
                                         .y_stride = stride,
                                         .x = x.data(),
                                         .w = w.data(),
                                         .b = b.data(),
                                         .y = to.y.data()},
                              .loss = {.n = n,
                                       .classes = out,
                                       .stride = stride,
                                       .logits = to.y.data(),
                                       .labels = labels.data(),
                                       .label_smoothing = 0.1,
                                       .losses = to.losses.data(),
                                       .predicted = to.predicted.data(),
                                       .label_rank = to.label_rank.data(),
                                       .dlogits = to.dlogits.data(),
                                       .tickets = tickets.data()}};
      };
      Results apart(n, stride);
      ASSERT_EQ(linear(args(apart).linear, nullptr), cudaSuccess);
      ASSERT_EQ(softmax_cross_entropy(args(apart).loss, nullptr), cudaSuccess);
      on_host::in_all_orders([&] {
        for (int launch = 0; launch < 2; ++launch) {
          Results together(n, stride);
          ASSERT_EQ(linear_loss(args(together), nullptr), cudaSuccess);
          EXPECT_TRUE(together.bytes() == apart.bytes());
        }
      });
    }
}

}  // namespace
}  // namespace ct::kernels
