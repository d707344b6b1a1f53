#include "linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/dense.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t n, in, out;
  int64_t in_stride, out_stride;
  size_t shift = 0;  // of everything, off 16-byte alignment
};
std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.n << " rows, " << c.in << " (stride " << c.in_stride << ") to " << c.out << " (" << c.out_stride
            << "), shifted by " << c.shift;
}
/// Padded as tensors are, dense, unaligned; one, several and many terms for each of the three sums.
const Case kCases[] = {{1, 1, 1, 16, 16},      {4, 84, 10, 96, 16}, {5, 33, 6, 48, 16},   {70, 5, 3, 16, 16},
                       {3, 16, 20, 16, 32},    {2, 1, 3, 1, 3},     {9, 7, 5, 7, 5},      {6, 40, 33, 40, 33, 1},
                       {4, 30, 66, 32, 66, 3}, {64, 10, 8, 16, 8},  {65, 9, 8, 16, 8, 2}, {3, 12, 65, 16, 80},
                       {1, 300, 2, 304, 16}};

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
std::vector<double> without_pads(const Matrix& m, int64_t columns, int64_t stride) {
  std::vector<double> dense;
  for (size_t i = 0; i < m.size(); ++i)
    if (static_cast<int64_t>(i) % stride < columns) dense.push_back(m[i]);
  return dense;
}
std::vector<double> sizes(std::vector<double> v) {
  for (double& x : v) x = std::fabs(x);
  return v;
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

/// `got` without its pads is `want` within what `terms` additions of products whose sizes add up to `size` can lose in
/// f32, and one rounding.
void expect_near(const std::vector<double>& got, const std::vector<double>& want, const std::vector<double>& size,
                 int64_t terms, double rounding) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], static_cast<double>(terms + 1) * 0x1p-24 * size[i] + rounding * std::fabs(want[i]))
        << i;
}

template <class Pair>
struct Layer {
  using T = typename Pair::T;
  using Y = typename Pair::Y;
  static constexpr int kPack = Pack<T>::kSize;
  explicit Layer(const Case& c)
      : c(c),
        x(matrix<T>(c.n, c.in, c.in_stride, 1)),
        w(matrix<T>(c.out, c.in, c.in_stride, 2)),
        dy(matrix<Y>(c.n, c.out, c.out_stride, 3)),
        b(numbers(static_cast<size_t>(c.out), 4)) {}

  Matrix y(bool relu) const {
    return padded<Y>(c.n, c.out, c.out_stride, [&](int64_t n, int64_t o) {
      const float y = sum_by_packs<kPack>(c.in,
                                          [&](float& sum, int64_t i) {
                                            sum = std::fma(at(x, n, c.in_stride, i), at(w, o, c.in_stride, i), sum);
                                          }) +
                      b[static_cast<size_t>(o)];
      return relu && y <= 0 ? 0 : y;
    });
  }
  Matrix dx() const {
    return padded<T>(c.n, c.in, c.in_stride, [&](int64_t n, int64_t i) {
      return sum_by_terms(c.out, [&](float& sum, int64_t o) {
        sum = std::fma(at(dy, n, c.out_stride, o), at(w, o, c.in_stride, i), sum);
      });
    });
  }
  Matrix dw() const {
    return padded<float>(c.out, c.in, c.in_stride, [&](int64_t o, int64_t i) {
      return sum_by_terms(c.n, [&](float& sum, int64_t n) {
        sum = std::fma(at(dy, n, c.out_stride, o), at(x, n, c.in_stride, i), sum);
      });
    });
  }
  Matrix db() const {
    return padded<float>(1, c.out, c.out, [&](int64_t, int64_t o) {
      return sum_by_terms(c.n, [&](float& sum, int64_t n) { sum += at(dy, n, c.out_stride, o); });
    });
  }

  /// The promised orders are those of the products, by double references.
  void expect_products() const {
    const std::vector<double> xs = without_pads(x, c.in, c.in_stride), ws = without_pads(w, c.in, c.in_stride),
                              dys = without_pads(dy, c.out, c.out_stride), bs(b.begin(), b.end());
    const std::vector<double> sums = reference::linear(c.n, c.in, c.out, xs, ws, bs),
                              size = reference::linear(c.n, c.in, c.out, sizes(xs), sizes(ws), sizes(bs));
    for (const bool relu : {false, true})
      expect_near(without_pads(y(relu), c.out, c.out_stride), relu ? reference::relu(sums) : sums, size, c.in + 1,
                  Named<Y>::kRounding);
    const auto grads = reference::linear_gradients(c.n, c.in, c.out, xs, ws, dys),
               grad_sizes = reference::linear_gradients(c.n, c.in, c.out, sizes(xs), sizes(ws), sizes(dys));
    expect_near(without_pads(dx(), c.in, c.in_stride), grads.dx, grad_sizes.dx, c.out, Named<T>::kRounding);
    expect_near(without_pads(dw(), c.in, c.in_stride), grads.dw, grad_sizes.dw, c.n, 0);
    expect_near(without_pads(db(), c.out, c.out), grads.db, grad_sizes.db, c.n, 0);
  }

  /// Every launcher, once.
  void expect_launches(const Matrix& wanted_y, bool relu, const Matrix& wanted_dx, const Matrix& wanted_dw,
                       const Matrix& wanted_db) const {
    const Type type = Named<T>::kType, y_type = Named<Y>::kType;
    Buffer<T> xs(x, c.shift), ws(w, c.shift), dxs(x.size(), c.shift);
    Buffer<Y> ys(dy.size(), c.shift), dys(dy, c.shift);
    Buffer<float> bs(b, c.shift), dws(w.size(), c.shift), dbs(b.size(), c.shift);
    ASSERT_EQ(linear({.type = type,
                      .y_type = y_type,
                      .n = c.n,
                      .in = c.in,
                      .out = c.out,
                      .x_stride = c.in_stride,
                      .w_stride = c.in_stride,
                      .y_stride = c.out_stride,
                      .relu = relu,
                      .x = xs.data(),
                      .w = ws.data(),
                      .b = bs.data(),
                      .y = ys.data()},
                     nullptr),
              cudaSuccess);
    expect_same(ys.values(), wanted_y);
    ASSERT_EQ(linear_grad_input({.type = type,
                                 .y_type = y_type,
                                 .n = c.n,
                                 .in = c.in,
                                 .out = c.out,
                                 .w_stride = c.in_stride,
                                 .dy_stride = c.out_stride,
                                 .dx_stride = c.in_stride,
                                 .w = ws.data(),
                                 .dy = dys.data(),
                                 .dx = dxs.data()},
                                nullptr),
              cudaSuccess);
    expect_same(dxs.values(), wanted_dx);
    ASSERT_EQ(linear_grad_weights({.type = type,
                                   .y_type = y_type,
                                   .n = c.n,
                                   .in = c.in,
                                   .out = c.out,
                                   .x_stride = c.in_stride,
                                   .dy_stride = c.out_stride,
                                   .dw_stride = c.in_stride,
                                   .x = xs.data(),
                                   .dy = dys.data(),
                                   .dw = dws.data(),
                                   .db = dbs.data()},
                                  nullptr),
              cudaSuccess);
    expect_same(dws.values(), wanted_dw);
    expect_same(dbs.values(), wanted_db);
    expect_same(xs.values(), x);
    expect_same(ws.values(), w);
    expect_same(dys.values(), dy);
  }

  Case c;
  Matrix x, w, dy, b;
};

TYPED_TEST(Linear, ProductsInThePromisedOrder) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c);
    const Layer<TypeParam> layer(c);
    layer.expect_products();
    const Matrix dx = layer.dx(), dw = layer.dw(), db = layer.db(), ys[] = {layer.y(false), layer.y(true)};
    bool relu = false;
    on_host::in_all_orders([&] {
      layer.expect_launches(ys[relu], relu, dx, dw, db);
      relu = !relu;
    });
  }
}

/// As large as the tutorial network's, and where linear takes four outputs a warp.
TYPED_TEST(Linear, LargeLayersInThePromisedOrder) {
  for (const Case& c : {Case{4, 400, 120, 400, 128}, Case{70, 20, 125, 32, 128}, Case{130, 70, 10, 80, 16}}) {
    SCOPED_TRACE(testing::Message() << c);
    const Layer<TypeParam> layer(c);
    layer.expect_products();
    layer.expect_launches(layer.y(true), /*relu=*/true, layer.dx(), layer.dw(), layer.db());
  }
}

/// Strides of their own for every operand, so that none is taken for another.
TEST(LinearOf, StridesThatDiffer) {
  const std::vector<float> x = {1, 2, 9, 9, 3, 4, 9, 9};          // [2][2], stride 4
  const std::vector<float> w = {5, 6, 9, 7, 8, 9, -9, 1, 9};      // [3][2], stride 3
  const std::vector<float> dy = {1, 0, 2, 9, 9, -1, 3, 1, 9, 9};  // [2][3], stride 5
  Buffer<float> xs(x), ws(w), dys(dy), b(std::vector<float>{0.5f, 0, -2}), y(8), dx(10), dw(21), db(3);
  ASSERT_EQ(linear({.type = Type::f32,
                    .y_type = Type::f32,
                    .n = 2,
                    .in = 2,
                    .out = 3,
                    .x_stride = 4,
                    .w_stride = 3,
                    .y_stride = 4,
                    .relu = true,
                    .x = xs.data(),
                    .w = ws.data(),
                    .b = b.data(),
                    .y = y.data()},
                   nullptr),
            cudaSuccess);
  EXPECT_EQ(y.values(), (Matrix{17.5f, 23, 0, 0, 39.5f, 53, 0, 0}));
  ASSERT_EQ(linear_grad_input({.type = Type::f32,
                               .y_type = Type::f32,
                               .n = 2,
                               .in = 2,
                               .out = 3,
                               .w_stride = 3,
                               .dy_stride = 5,
                               .dx_stride = 5,
                               .w = ws.data(),
                               .dy = dys.data(),
                               .dx = dx.data()},
                              nullptr),
            cudaSuccess);
  EXPECT_EQ(dx.values(), (Matrix{-13, 8, 0, 0, 0, 7, 19, 0, 0, 0}));
  ASSERT_EQ(linear_grad_weights({.type = Type::f32,
                                 .y_type = Type::f32,
                                 .n = 2,
                                 .in = 2,
                                 .out = 3,
                                 .x_stride = 4,
                                 .dy_stride = 5,
                                 .dw_stride = 7,
                                 .x = xs.data(),
                                 .dy = dys.data(),
                                 .dw = dw.data(),
                                 .db = db.data()},
                                nullptr),
            cudaSuccess);
  EXPECT_EQ(dw.values(), (Matrix{-2, -2, 0, 0, 0, 0, 0, 9, 12, 0, 0, 0, 0, 0, 5, 8, 0, 0, 0, 0, 0}));
  EXPECT_EQ(db.values(), (Matrix{0, 3, 3}));
}

LinearArgs one_weight(Buffer<float>& at) {
  return {.type = Type::f32,
          .y_type = Type::f32,
          .n = 1,
          .in = 1,
          .out = 1,
          .x_stride = 1,
          .w_stride = 1,
          .y_stride = 1,
          .relu = false,
          .x = at.data(),
          .w = at.data() + 1,
          .b = at.data() + 2,
          .y = at.data() + 3};
}

TEST(LinearOf, NotANumberPassesTheRelu) {
  Buffer<float> at(std::vector<float>{kNaN, 1, 0, 7});
  LinearArgs args = one_weight(at);
  args.relu = true;
  ASSERT_EQ(linear(args, nullptr), cudaSuccess);
  EXPECT_TRUE(std::isnan(at[3]));
}

TEST(LinearOf, NoBias) {
  Buffer<float> at(std::vector<float>{2, 3, 4, 7, 7});
  LinearArgs args = one_weight(at);
  args.b = nullptr;
  ASSERT_EQ(linear(args, nullptr), cudaSuccess);
  EXPECT_EQ(at[3], 6);
  const LinearGradWArgs grad{.type = Type::f32,
                             .y_type = Type::f32,
                             .n = 1,
                             .in = 1,
                             .out = 1,
                             .x_stride = 1,
                             .dy_stride = 1,
                             .dw_stride = 1,
                             .x = at.data(),
                             .dy = at.data() + 1,
                             .dw = at.data() + 3,
                             .db = nullptr};
  ASSERT_EQ(linear_grad_weights(grad, nullptr), cudaSuccess);
  EXPECT_EQ(at.values(), (Matrix{2, 3, 4, 6, 7}));
}

TEST(LinearOf, NoRows) {
  Buffer<float> at(std::vector<float>{2, 3, 4, 7, 7});
  LinearArgs args = one_weight(at);
  args.n = 0;
  EXPECT_EQ(linear(args, nullptr), cudaSuccess);
  LinearGradXArgs grad_x{.type = Type::f32,
                         .y_type = Type::f32,
                         .n = 0,
                         .in = 1,
                         .out = 1,
                         .w_stride = 1,
                         .dy_stride = 1,
                         .dx_stride = 1,
                         .w = at.data(),
                         .dy = at.data(),
                         .dx = at.data() + 3};
  EXPECT_EQ(linear_grad_input(grad_x, nullptr), cudaSuccess);
  EXPECT_EQ(at.values(), (Matrix{2, 3, 4, 7, 7}));
  LinearGradWArgs grad_w{.type = Type::f32,
                         .y_type = Type::f32,
                         .n = 0,
                         .in = 1,
                         .out = 1,
                         .x_stride = 1,
                         .dy_stride = 1,
                         .dw_stride = 1,
                         .x = at.data(),
                         .dy = at.data(),
                         .dw = at.data() + 3,
                         .db = at.data() + 4};
  EXPECT_EQ(linear_grad_weights(grad_w, nullptr), cudaSuccess);
  EXPECT_EQ(at.values(), (Matrix{2, 3, 4, 0, 0}));
}

TEST(LinearOf, RefusesNonsense) {
  Buffer<float> at(std::vector<float>{2, 3, 4, 7, 7});
  const auto refused = [&](auto&& change) {
    LinearArgs args = one_weight(at);
    change(args);
    EXPECT_EQ(linear(args, nullptr), cudaErrorInvalidValue);
    LinearGradXArgs grad_x{.type = args.type,
                           .y_type = args.y_type,
                           .n = args.n,
                           .in = args.in,
                           .out = args.out,
                           .w_stride = args.w_stride,
                           .dy_stride = args.y_stride,
                           .dx_stride = args.x_stride,
                           .w = at.data(),
                           .dy = at.data(),
                           .dx = at.data() + 3};
    EXPECT_EQ(linear_grad_input(grad_x, nullptr), cudaErrorInvalidValue);
    LinearGradWArgs grad_w{.type = args.type,
                           .y_type = args.y_type,
                           .n = args.n,
                           .in = args.in,
                           .out = args.out,
                           .x_stride = args.x_stride,
                           .dy_stride = args.y_stride,
                           .dw_stride = args.w_stride,
                           .x = at.data(),
                           .dy = at.data(),
                           .dw = at.data() + 3,
                           .db = at.data() + 4};
    EXPECT_EQ(linear_grad_weights(grad_w, nullptr), cudaErrorInvalidValue);
  };
  refused([](LinearArgs& a) { a.n = -1; });
  refused([](LinearArgs& a) { a.in = 0; });
  refused([](LinearArgs& a) { a.out = 0; });
  refused([](LinearArgs& a) { a.x_stride = 0; });
  refused([](LinearArgs& a) { a.w_stride = 0; });
  refused([](LinearArgs& a) { a.y_stride = 0; });
  refused([](LinearArgs& a) { a.w_stride = int64_t{1} << 31; });
  refused([](LinearArgs& a) {  // too many blocks
    a.n = a.in = a.out = a.x_stride = a.w_stride = a.y_stride = int64_t{1} << 30;
  });
  refused([](LinearArgs& a) { a.y_type = Type::bf16; });
  refused([](LinearArgs& a) { a.type = static_cast<Type>(7); });
  EXPECT_EQ(at.values(), (Matrix{2, 3, 4, 7, 7}));
}

}  // namespace
}  // namespace ct::kernels
