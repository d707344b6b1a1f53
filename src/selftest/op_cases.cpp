#include "selftest/op_cases.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <type_traits>

#include "base/error.h"
#include "plan/step_scalars.h"
#include "selftest/reference/augment.h"
#include "selftest/reference/conv.h"
#include "selftest/reference/dense.h"
#include "selftest/reference/norm.h"
#include "selftest/reference/optimizer.h"
#include "selftest/reference/rounding.h"
#include "selftest/reference/tree.h"

namespace ct {
namespace {

using Doubles = std::vector<double>;
using Bytes = std::vector<uint8_t>;
using reference::rounded;
using reference::rounding_to;

constexpr DType kComputeTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr double kEps = std::numeric_limits<float>::epsilon();

size_t at(int64_t i) { return static_cast<size_t>(i); }
Doubles doubles(const Bytes& v) { return {v.begin(), v.end()}; }
std::vector<Complex> complex(const Doubles& v) { return {v.begin(), v.end()}; }
Doubles squares(Doubles v) {
  for (double& x : v) x *= x;
  return v;
}
/// Normal numbers that float holds exactly, so that references in double see what the device sees.
Doubles normal(size_t n, uint32_t seed, double scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution(0, static_cast<float>(scale));
  Doubles values(n);
  for (double& v : values) v = distribution(engine);
  return values;
}
/// Normal numbers that the type holds exactly.
Doubles normal(DType type, size_t n, uint32_t seed, double scale = 1) {
  Doubles values = normal(n, seed, scale);
  for (double& x : values) x = rounded(type, x);
  return values;
}
Complex weighted(const Doubles& dy, const std::vector<Complex>& y) {
  Complex sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
  return sum;
}

/// What float rounding may do to a sum of `terms` products whose squares add up to `square_sums`: partial sums are
/// about as large as the root of that, and each of `terms` roundings adds an independent error of at most eps/2 of
/// them. The factor leaves about seven standard deviations.
Doubles rounding(Doubles square_sums, int64_t terms) {
  for (double& x : square_sums) x = std::sqrt(x) * (4 + 2 * std::sqrt(static_cast<double>(terms))) * kEps;
  return square_sums;
}

/// Of a structure in device memory, as u8.
template <class T>
Doubles bytes_of(const T& s) {
  Bytes bytes(sizeof s);
  std::memcpy(bytes.data(), &s, sizeof s);
  return doubles(bytes);
}
template <class T>
Shape shape_of() {
  return {static_cast<int64_t>(sizeof(T))};
}

/// Of a case's name.
std::string suffix(DType type) { return type == DType::f32 ? "" : str(" ", name_of(type)); }

/// A case whose activations, their gradients and weights are of one type.
class Case {
 public:
  explicit Case(DType type = DType::f32) : type_(type) {}
  ValueId add(OpOperand operand) {
    case_.operands.push_back(std::move(operand));
    return static_cast<ValueId>(case_.operands.size() - 1);
  }
  ValueId in(const Shape& shape, Doubles values, DType dtype = DType::f32) {
    return add({.value = {.shape = shape, .dtype = dtype}, .before = std::move(values)});
  }
  ValueId out(const Shape& shape, Doubles values, Doubles tolerance = {}, DType dtype = DType::f32) {
    return add(
        {.value = {.shape = shape, .dtype = dtype}, .after = std::move(values), .tolerance = std::move(tolerance)});
  }
  ValueId in_out(const Shape& shape, Doubles before, Doubles after, Doubles tolerance = {}, DType dtype = DType::f32) {
    return add({.value = {.shape = shape, .dtype = dtype},
                .before = std::move(before),
                .after = std::move(after),
                .tolerance = std::move(tolerance)});
  }
  ValueId wide_in(const Shape& shape, Doubles values) { return in(shape, std::move(values), type_); }
  /// Of the type's numbers, which are copied or compared, never rounded.
  ValueId exact_out(const Shape& shape, Doubles values) { return out(shape, std::move(values), {}, type_); }
  /// Rounded to the type at last.
  ValueId wide_out(const Shape& shape, Doubles values, Doubles tolerance) {
    for (size_t i = 0; i < values.size(); ++i) tolerance[i] += rounding_to(type_, std::abs(values[i]) + tolerance[i]);
    return out(shape, std::move(values), std::move(tolerance), type_);
  }
  void gradient(ValueId id, const Doubles& x, std::function<Complex(const std::vector<Complex>&)> loss) {
    case_.gradients.push_back({id, x, std::move(loss)});
  }
  template <class... Parts>
  OpCase of(ComputeOp op, const Parts&... parts) {
    case_.name = str(name_of(Op(op)), parts..., suffix(type_));
    case_.op = std::move(op);
    return std::move(case_);
  }

 private:
  DType type_;
  OpCase case_;
};

using Cases = std::vector<OpCase>;
template <class Op>
using Of = std::type_identity<Op>;

// ---- input

void add_cases(Cases& cases, Of<Augment>, DType type) {
  const Doubles all_draws = {0, 0, 0, 0, 0, 0, 1, 0, 4, -3, 0, 0, -4, 4, 1, 0, 2, 1, 1, 0, -40, 0, 0, 0, 0, 60, 1, 0};
  struct Size {
    int64_t n, channels, height, width;
  };
  for (const Size& s : {Size{7, 3, 32, 32}, {1, 3, 32, 32}, {4, 3, 5, 7}, {3, 1, 9, 50}, {7, 3, 3, 16}}) {
    Case c(type);
    const Shape shape{s.n, s.channels, s.height, s.width};
    Doubles pixels = normal(at(shape.numel()), 1, 100);
    for (double& p : pixels) p = std::fmod(std::floor(std::abs(p)), 256);
    const Doubles draws(all_draws.begin(), all_draws.begin() + 4 * s.n);
    const std::vector<float> scale{1 / 63.0f, 1 / 62.0f, 1 / 66.0f}, shift{-1.99f, -1.98f, -1.71f};
    Doubles expected = reference::augment(s.n, s.channels, s.height, s.width, pixels, draws, scale, shift);
    const ValueId images = c.in(shape, pixels, DType::u8), moves = c.in({4 * s.n}, draws, DType::i32);
    const Doubles tolerance(expected.size(), 8 * kEps);  // two roundings of values up to 4
    const ValueId out = c.wide_out(shape, expected, tolerance);
    cases.push_back(c.of(Augment{images, moves, out, scale, shift}, " ", to_string(shape)));
  }
}

// ---- convolutions

struct ConvProblem {
  DType type;
  reference::Conv s;
  bool planar;
  Doubles x, w, b, x_stored;  // x in NHWC
  Shape x_shape, y_shape, w_shape, b_shape;

  ConvProblem(DType type_, const reference::Conv& conv, bool is_planar, int64_t pool = 1)
      : type(type_), s(conv), planar(is_planar) {
    x_stored = normal(type, at(s.n * s.in * s.height * s.width), 1);
    x = planar ? reference::to_channels_last(x_stored, s.n, s.in, s.height * s.width) : x_stored;
    const int64_t terms = s.kernel * s.kernel * s.in;
    w = normal(type, at(s.out * terms), 2, 1 / std::sqrt(static_cast<double>(terms)));
    b = normal(at(s.out), 3, 0.2);
    x_shape = planar ? Shape{s.n, s.in, s.height, s.width} : Shape{s.n, s.height, s.width, s.in};
    y_shape = {s.n, s.out_height() / pool, s.out_width() / pool, s.out};
    w_shape = {s.out * terms};
    b_shape = {s.out};
  }
  int64_t terms() const { return s.kernel * s.kernel * s.in; }
  /// The transforms of Winograd's F(4x4, 3x3) have entries up to 8, whose sums of both signs cancel.
  Doubles rounding_of(Doubles square_sums, int64_t count) const {
    square_sums = rounding(std::move(square_sums), count);
    if (type == DType::f32 && s.kernel == 3 && s.stride == 1)
      for (double& x : square_sums) x *= 8;
    return square_sums;
  }
  int kernel() const { return static_cast<int>(s.kernel); }
  int stride() const { return static_cast<int>(s.stride); }
  int pad() const { return static_cast<int>(s.pad); }
  std::string text() const {
    return str(" ", to_string(x_shape), planar ? " planar" : "", " -> ", to_string(y_shape), " k", s.kernel, " stride ",
               s.stride, " pad ", s.pad);
  }
};

std::vector<std::shared_ptr<const ConvProblem>> conv_problems(DType type) {
  std::vector<std::shared_ptr<const ConvProblem>> problems;
  const auto add = [&](const reference::Conv& s, bool planar) {
    problems.push_back(std::make_shared<ConvProblem>(type, s, planar));
  };
  add({4, 3, 32, 32, 6, 5, 1, 0}, true);
  add({17, 6, 14, 14, 16, 5, 1, 0}, false);
  add({2, 3, 7, 8, 5, 3, 1, 1}, true);
  add({3, 4, 6, 6, 9, 5, 2, 2}, false);
  add({1, 20, 3, 4, 7, 1, 1, 0}, false);
  add({1, 2, 2, 2, 3, 3, 1, 3}, false);
  add({3, 16, 9, 11, 33, 3, 2, 1}, false);
  add({5, 3, 10, 8, 32, 3, 1, 1}, true);
  add({3, 64, 4, 4, 16, 3, 1, 1}, false);   // short rows
  add({16, 32, 7, 8, 48, 3, 1, 1}, false);  // enough of everything for Winograd's algorithm
  return problems;
}

void add_cases(Cases& cases, Of<Conv2d>, DType type) {
  for (const auto& p : conv_problems(type))
    for (const bool bias : {true, false}) {
      Case c(type);
      const ValueId x = c.wide_in(p->x_shape, p->x_stored), w = c.wide_in(p->w_shape, p->w);
      const ValueId b = bias ? c.in(p->b_shape, p->b) : kNone;
      const Doubles none;
      const ValueId y = c.wide_out(
          p->y_shape, conv2d(p->s, p->x, p->w, bias ? p->b : none),
          p->rounding_of(conv2d(p->s, squares(p->x), squares(p->w), bias ? squares(p->b) : none), p->terms() + bias));
      cases.push_back(c.of(Conv2d{x, w, b, y, p->kernel(), p->stride(), p->pad(), p->planar}, p->text(),
                           bias ? "" : " without bias"));
    }
}

void add_cases(Cases& cases, Of<Conv2dGradW>, DType type) {
  for (const auto& p : conv_problems(type)) {
    const Doubles dy = normal(type, at(p->y_shape.numel()), 4);
    const auto g = conv2d_gradients(p->s, p->x, p->w, dy);
    const auto g2 = conv2d_gradients(p->s, squares(p->x), squares(p->w), squares(dy));
    const int64_t terms = p->y_shape.numel() / p->s.out;
    for (const bool bias : {true, false}) {
      Case c(type);
      const ValueId x = c.wide_in(p->x_shape, p->x_stored), d = c.wide_in(p->y_shape, dy);
      const ValueId dw = c.out(p->w_shape, g.dw, p->rounding_of(g2.dw, terms));
      const ValueId db = bias ? c.out(p->b_shape, g.db, p->rounding_of(g2.db, terms)) : kNone;
      c.gradient(dw, p->w, [=](const auto& w) { return weighted(dy, conv2d(p->s, complex(p->x), w, {})); });
      if (bias)
        c.gradient(db, p->b,
                   [=](const auto& b) { return weighted(dy, conv2d(p->s, complex(p->x), complex(p->w), b)); });
      cases.push_back(c.of(Conv2dGradW{x, d, dw, db, p->kernel(), p->stride(), p->pad(), p->planar}, p->text(),
                           bias ? "" : " without bias"));
    }
  }
}

void add_cases(Cases& cases, Of<Conv2dGradX>, DType type) {
  for (const auto& p : conv_problems(type)) {
    if (p->planar) continue;  // images want no gradient
    Case c(type);
    const Doubles dy = normal(type, at(p->y_shape.numel()), 4);
    const ValueId w = c.wide_in(p->w_shape, p->w), d = c.wide_in(p->y_shape, dy);
    const ValueId dx = c.wide_out(p->x_shape, conv2d_gradients(p->s, p->x, p->w, dy).dx,
                                  p->rounding_of(conv2d_gradients(p->s, squares(p->x), squares(p->w), squares(dy)).dx,
                                                 p->s.kernel * p->s.kernel * p->s.out));
    c.gradient(dx, p->x, [=](const auto& x) { return weighted(dy, conv2d(p->s, x, complex(p->w), {})); });
    cases.push_back(c.of(Conv2dGradX{w, d, dx, p->kernel(), p->stride(), p->pad()}, p->text()));
  }
}

// ---- convolution, ReLU and pooling in one

struct PoolProblem : ConvProblem {
  Doubles y, tolerance, winner_tolerance, dy;
  Bytes winner;

  PoolProblem(DType type_, const reference::Conv& conv, bool is_planar)
      : ConvProblem(type_, conv, is_planar, /*pool=*/2) {
    y = conv_relu_pool(s, x, w, b, winner);
    const Doubles z = conv2d(s, x, w, b);
    const Doubles z_tolerance = rounding(conv2d(s, squares(x), squares(w), squares(b)), terms() + 1);
    dy = normal(type, y.size(), 4);
    size_t i = 0;
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t py = 0; py < y_shape[1]; ++py)
        for (int64_t px = 0; px < y_shape[2]; ++px)
          for (int64_t o = 0; o < s.out; ++o, ++i) {
            const auto place = [&](int64_t k) {
              return at(((n * s.out_height() + 2 * py + k / 2) * s.out_width() + 2 * px + k % 2) * s.out + o);
            };
            double widest = 0, top = z[place(0)];
            for (int64_t k = 0; k < 4; ++k)
              widest = std::max(widest, z_tolerance[place(k)]), top = std::max(top, z[place(k)]);
            // Where rounding can turn the order of two candidates (or of one and zero), any of them may win.
            int candidates = std::abs(top) < 2 * widest;
            for (int64_t k = 0; k < 4; ++k) candidates += z[place(k)] > top - 2 * widest;
            tolerance.push_back(widest);
            winner_tolerance.push_back(candidates > 1 ? 4 : 0);
          }
  }
};

std::vector<std::shared_ptr<const PoolProblem>> pool_problems(DType type) {
  std::vector<std::shared_ptr<const PoolProblem>> problems;
  const auto add = [&](const reference::Conv& s, bool planar) {
    problems.push_back(std::make_shared<PoolProblem>(type, s, planar));
  };
  for (const int64_t n : {1, 3, 4, 17}) {
    add({n, 3, 32, 32, 6, 5, 1, 0}, true);    // the tutorial network's first layer
    add({n, 6, 14, 14, 16, 5, 1, 0}, false);  // its second
  }
  add({2, 3, 11, 12, 5, 3, 1, 0}, true);  // odd rows of outputs
  add({3, 7, 9, 8, 17, 2, 1, 0}, false);
  add({1, 20, 6, 7, 3, 1, 1, 0}, false);
  add({4, 3, 32, 32, 7, 5, 1, 0}, true);     // one channel beside the fast path
  add({17, 6, 14, 13, 16, 5, 1, 0}, false);  // one column beside it
  add({3, 3, 32, 32, 6, 5, 1, 0}, false);
  return problems;
}

void add_cases(Cases& cases, Of<ConvReluPool>, DType type) {
  for (const auto& p : pool_problems(type)) {
    Case c(type);
    const ValueId x = c.wide_in(p->x_shape, p->x_stored), w = c.wide_in(p->w_shape, p->w), b = c.in(p->b_shape, p->b);
    const ValueId y = c.wide_out(p->y_shape, p->y, p->tolerance);
    const ValueId winner = c.out(p->y_shape, doubles(p->winner), p->winner_tolerance, DType::u8);
    cases.push_back(c.of(ConvReluPool{x, w, b, y, winner, p->kernel(), p->planar}, p->text()));
  }
  for (const auto& p :
       pool_problems(type)) {  // small numbers: sums are exact, windows full of ties, zeros at ReLU's edge
    ConvProblem q = *p;
    for (double& e : q.x_stored) e = std::nearbyint(2 * e);
    for (double& e : q.w) e = std::nearbyint(e * std::sqrt(static_cast<double>(q.terms())));
    for (double& e : q.b) e = std::nearbyint(10 * e);
    q.x = q.planar ? reference::to_channels_last(q.x_stored, q.s.n, q.s.in, q.s.height * q.s.width) : q.x_stored;
    Case c(type);
    Bytes places;
    const Doubles expected = conv_relu_pool(q.s, q.x, q.w, q.b, places);
    const ValueId x = c.wide_in(q.x_shape, q.x_stored), w = c.wide_in(q.w_shape, q.w), b = c.in(q.b_shape, q.b);
    const ValueId y = c.wide_out(q.y_shape, expected, Doubles(expected.size())),
                  winner = c.out(q.y_shape, doubles(places), {}, DType::u8);
    cases.push_back(c.of(ConvReluPool{x, w, b, y, winner, q.kernel(), q.planar}, q.text(), " of small integers"));
  }
}

void add_cases(Cases& cases, Of<ConvReluPoolGradW>, DType type) {
  for (const auto& p : pool_problems(type)) {
    Case c(type);
    const auto g = conv_relu_pool_gradients(p->s, p->x, p->w, p->dy, p->winner);
    const auto g2 = conv_relu_pool_gradients(p->s, squares(p->x), squares(p->w), squares(p->dy), p->winner);
    const int64_t terms = p->y_shape.numel() / p->s.out;
    const ValueId x = c.wide_in(p->x_shape, p->x_stored), dy = c.wide_in(p->y_shape, p->dy);
    const ValueId winner = c.in(p->y_shape, doubles(p->winner), DType::u8);
    const ValueId dw = c.out(p->w_shape, g.dw, rounding(g2.dw, terms));
    const ValueId db = c.out(p->b_shape, g.db, rounding(g2.db, terms));
    Bytes unused;
    c.gradient(dw, p->w, [=](const auto& w) mutable {
      return weighted(p->dy, conv_relu_pool(p->s, complex(p->x), w, complex(p->b), unused));
    });
    c.gradient(db, p->b, [=](const auto& b) mutable {
      return weighted(p->dy, conv_relu_pool(p->s, complex(p->x), complex(p->w), b, unused));
    });
    cases.push_back(c.of(ConvReluPoolGradW{x, dy, winner, dw, db, p->kernel(), p->planar}, p->text()));
  }
}

void add_cases(Cases& cases, Of<ConvReluPoolGradX>, DType type) {
  for (const auto& p : pool_problems(type)) {
    if (p->planar) continue;
    Case c(type);
    const ValueId w = c.wide_in(p->w_shape, p->w), dy = c.wide_in(p->y_shape, p->dy);
    const ValueId winner = c.in(p->y_shape, doubles(p->winner), DType::u8);
    const ValueId dx =
        c.wide_out(p->x_shape, conv_relu_pool_gradients(p->s, p->x, p->w, p->dy, p->winner).dx,
                   rounding(conv_relu_pool_gradients(p->s, squares(p->x), squares(p->w), squares(p->dy), p->winner).dx,
                            p->s.kernel * p->s.kernel * p->s.out));
    Bytes unused;
    c.gradient(dx, p->x, [=](const auto& x) mutable {
      return weighted(p->dy, conv_relu_pool(p->s, x, complex(p->w), complex(p->b), unused));
    });
    cases.push_back(c.of(ConvReluPoolGradX{w, dy, winner, dx, p->kernel()}, p->text()));
  }
}

// ---- pooling

struct MaxPoolProblem {
  int64_t n, height, width, channels, size;
  Doubles x, y;
  Bytes winner;
  Shape x_shape, y_shape;

  MaxPoolProblem(int64_t n_, int64_t h, int64_t w, int64_t c, int64_t s)
      : n(n_), height(h), width(w), channels(c), size(s), x_shape{n, h, w, c}, y_shape{n, h / s, w / s, c} {
    x = normal(at(x_shape.numel()), 1);
    for (double& v : x) v = std::round(v * 2) / 2;  // ties
    y = pool(x, winner);
  }
  template <class T>
  std::vector<T> pool(const std::vector<T>& values, Bytes& places) const {
    return reference::max_pool(n, height, width, channels, size, values, places);
  }
};

std::vector<MaxPoolProblem> max_pool_problems() {
  return {{4, 28, 28, 6, 2}, {17, 10, 10, 16, 2}, {2, 7, 6, 5, 2}, {1, 9, 10, 33, 3}, {3, 4, 4, 1, 4}};
}

void add_cases(Cases& cases, Of<MaxPool>, DType type) {
  for (const MaxPoolProblem& p : max_pool_problems()) {
    Case c(type);
    const ValueId x = c.wide_in(p.x_shape, p.x), y = c.exact_out(p.y_shape, p.y);
    const ValueId winner = c.out(p.y_shape, doubles(p.winner), {}, DType::u8);
    cases.push_back(c.of(MaxPool{x, y, winner, static_cast<int>(p.size)}, " ", to_string(p.x_shape), " by ", p.size));
  }
}

void add_cases(Cases& cases, Of<MaxPoolGrad>, DType type) {
  for (const MaxPoolProblem& p : max_pool_problems()) {
    Case c(type);
    const Doubles dy = normal(type, p.y.size(), 2);
    const ValueId d = c.wide_in(p.y_shape, dy), winner = c.in(p.y_shape, doubles(p.winner), DType::u8);
    const ValueId dx =
        c.exact_out(p.x_shape, reference::max_pool_gradient(p.n, p.height, p.width, p.channels, p.size, dy, p.winner));
    c.gradient(dx, p.x, [=](const auto& x) {
      Bytes unused;
      return weighted(dy, p.pool(x, unused));
    });
    cases.push_back(
        c.of(MaxPoolGrad{d, winner, dx, static_cast<int>(p.size)}, " ", to_string(p.x_shape), " by ", p.size));
  }
}

// ---- average pooling and batch normalisation

const std::vector<Shape>& image_shapes() {
  static const std::vector<Shape> shapes{{4, 5, 5, 16}, {17, 7, 7, 3}, {3, 2, 3, 5}, {1, 1, 1, 1}, {2, 4, 4, 77}};
  return shapes;
}

void add_cases(Cases& cases, Of<AveragePool>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const Doubles values = normal(type, at(shape.numel()), 1);
    const int64_t n = shape[0], pixels = shape[1] * shape[2], channels = shape[3];
    Doubles tolerance = rounding(reference::average_pool(n, pixels, channels, squares(values)), pixels);
    const ValueId x = c.wide_in(shape, values);
    const ValueId y =
        c.wide_out({n, channels}, reference::average_pool(n, pixels, channels, values), std::move(tolerance));
    cases.push_back(c.of(AveragePool{x, y}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<AveragePoolGrad>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const int64_t n = shape[0], pixels = shape[1] * shape[2], channels = shape[3];
    const Doubles d = normal(type, at(n * channels), 1), x = normal(at(shape.numel()), 2);
    const Doubles expected = reference::average_pool_gradient(n, pixels, channels, d);
    Doubles tolerance = expected;
    for (double& t : tolerance) t = 2 * kEps * std::abs(t);
    const ValueId dy = c.wide_in({n, channels}, d), dx = c.wide_out(shape, expected, tolerance);
    c.gradient(dx, x, [=](const auto& v) { return weighted(d, reference::average_pool(n, pixels, channels, v)); });
    cases.push_back(c.of(AveragePoolGrad{dy, dx}, " ", to_string(shape)));
  }
}

struct NormProblem {
  DType type;
  Shape shape;
  double offset;  // of x, whose standard deviation is about 2
  bool relu, has_residual;
  reference::Norm s;
  Doubles x, w, b, residual, dy, mean, var, y;

  NormProblem(DType type_, const Shape& shape_, double offset_, bool relu_, bool residual_)
      : type(type_), shape(shape_), offset(offset_), relu(relu_), has_residual(residual_) {
    const int64_t channels = shape[shape.rank() - 1];
    s = {shape.numel() / channels, channels};
    const size_t n = at(shape.numel());
    x = normal(n, 1, 2);
    for (double& v : x) v = rounded(type, static_cast<float>(v + offset));
    w = normal(at(channels), 2), b = normal(at(channels), 3);
    if (has_residual) residual = normal(type, n, 4);
    dy = normal(type, n, 5);
    mean = channel_means(s, x), var = channel_variances(s, x);
    y = forward(x, w, b);
  }
  template <class T>
  std::vector<T> forward(const std::vector<T>& x_, const std::vector<T>& w_, const std::vector<T>& b_) const {
    return batch_norm(s, x_, channel_means(s, x_), channel_variances(s, x_), w_, b_,
                      std::vector<T>(residual.begin(), residual.end()), relu);
  }
  double sigma(size_t c) const { return std::sqrt(var[c] + s.eps); }
  Shape vector() const { return {s.channels}; }
  /// Of a channel's mean: sums of numbers of size sigma around its first element, which is as large as the mean.
  Doubles mean_tolerance() const {
    Doubles t;
    for (size_t c = 0; c < mean.size(); ++c) t.push_back(kEps * (std::abs(mean[c]) + 8 * sigma(c)));
    return t;
  }
  /// Squared distances from a first element that is at most a few sigma away: what cancels is a few times the result.
  Doubles var_tolerance() const {
    Doubles t;
    for (size_t c = 0; c < var.size(); ++c) t.push_back(64 * kEps * (var[c] + s.eps));
    return t;
  }
  Doubles y_tolerance() const {
    Doubles t;
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % w.size();
      const double normalised = (std::abs(x[i] - mean[c]) * 40 + std::abs(mean[c]) + 8 * sigma(c)) / sigma(c);
      t.push_back(kEps * (std::abs(w[c]) * normalised + 2 * std::abs(b[c]) +
                          (residual.empty() ? 0 : 2 * std::abs(residual[i]))));
    }
    return t;
  }
  std::string text() const {
    return str(" ", to_string(shape), " around ", offset, relu ? " with ReLU" : "",
               has_residual ? " with residual" : "");
  }
};

std::vector<NormProblem> norm_problems(DType type) {
  std::vector<NormProblem> problems;
  for (const Shape& shape : {Shape{4, 6, 5, 64}, {3, 5, 5, 33}, {2, 9, 9, 200}, {1, 2, 1, 1}})
    for (const bool relu : {false, true})
      for (const bool residual : {false, true})
        for (const double offset : {0.5, 100.0}) problems.push_back({type, shape, offset, relu, residual});
  return problems;
}

void add_cases(Cases& cases, Of<BatchNorm>, DType type) {
  for (const NormProblem& p : norm_problems(type)) {
    {
      Case c(type);
      BatchNorm op{.eps = p.s.eps, .relu = p.relu};
      op.x = c.wide_in(p.shape, p.x);
      op.residual = p.has_residual ? c.wide_in(p.shape, p.residual) : kNone;
      op.w = c.in(p.vector(), p.w), op.b = c.in(p.vector(), p.b);
      op.running_mean = c.in(p.vector(), {}), op.running_var = c.in(p.vector(), {});  // not used
      op.y = c.wide_out(p.shape, p.y, p.y_tolerance());
      op.mean = c.out(p.vector(), p.mean, p.mean_tolerance());
      op.var = c.out(p.vector(), p.var, p.var_tolerance());
      cases.push_back(c.of(op, p.text()));
    }
    Case c(type);
    Doubles mean = normal(p.w.size(), 6), var = squares(normal(p.w.size(), 7));
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] = static_cast<float>(mean[i] + p.offset);
      var[i] = static_cast<float>(var[i] + 2);
    }
    NormProblem q = p;
    q.mean = mean, q.var = var;
    BatchNorm op{.eps = p.s.eps, .relu = p.relu};
    op.x = c.wide_in(p.shape, p.x);
    op.residual = p.has_residual ? c.wide_in(p.shape, p.residual) : kNone;
    op.w = c.in(p.vector(), p.w), op.b = c.in(p.vector(), p.b);
    op.running_mean = c.in(p.vector(), mean), op.running_var = c.in(p.vector(), var);
    op.y = c.wide_out(p.shape, batch_norm(p.s, p.x, mean, var, p.w, p.b, p.residual, p.relu), q.y_tolerance());
    op.mean = op.var = kNone;
    cases.push_back(c.of(op, p.text(), " by running statistics"));
  }
}

void add_cases(Cases& cases, Of<BatchNormGrad>, DType type) {
  for (const NormProblem& p : norm_problems(type)) {
    Case c(type);
    const auto g = batch_norm_gradients(p.s, p.x, p.relu ? p.y : Doubles(), p.dy, p.w);
    const auto rows = static_cast<double>(p.s.rows);
    Doubles sizes(p.w.size()), dw_tolerance, db_tolerance, dx_tolerance, unbiased = p.var, var_tolerance;
    for (size_t i = 0; i < g.g.size(); ++i) sizes[i % sizes.size()] += g.g[i] * g.g[i];
    // The given statistics are rounded: x - mean is off by eps |mean|, in each of the products that dw is the sum of.
    const auto off = [&](size_t ch) { return 4 + 2 * std::sqrt(rows) + std::abs(p.mean[ch]) / p.sigma(ch); };
    for (size_t ch = 0; ch < sizes.size(); ++ch) {
      const double size = std::sqrt(sizes[ch]);
      db_tolerance.push_back(kEps * (4 + 2 * std::sqrt(rows)) * size);
      dw_tolerance.push_back(kEps * off(ch) * size * std::sqrt(rows));
      unbiased[ch] *= rows / (rows - 1);
      var_tolerance.push_back(2 * kEps * unbiased[ch]);
    }
    for (size_t i = 0; i < p.x.size(); ++i) {
      const size_t ch = i % sizes.size();
      const double normalised = std::abs(p.x[i] - p.mean[ch]) / p.sigma(ch);
      const double terms = std::abs(g.g[i]) * 8 * kEps +
                           ((8 + off(ch)) * kEps * std::abs(g.dw[ch]) + normalised * dw_tolerance[ch] +
                            db_tolerance[ch] + 8 * kEps * (std::abs(g.db[ch]) + normalised * std::abs(g.dw[ch]))) /
                               rows;
      dx_tolerance.push_back(std::abs(p.w[ch]) / p.sigma(ch) * terms);
    }
    BatchNormGrad op{.y = kNone, .dresidual = kNone, .eps = p.s.eps};
    op.x = c.wide_in(p.shape, p.x);
    if (p.relu) op.y = c.wide_in(p.shape, p.y);
    op.dy = c.wide_in(p.shape, p.dy);
    op.w = c.in(p.vector(), p.w), op.mean = c.in(p.vector(), p.mean), op.var = c.in(p.vector(), p.var);
    op.dx = c.wide_out(p.shape, g.dx, dx_tolerance);
    if (p.has_residual) op.dresidual = c.exact_out(p.shape, g.g);
    op.dw = c.out(p.vector(), g.dw, dw_tolerance), op.db = c.out(p.vector(), g.db, db_tolerance);
    Doubles mean_tolerance;
    for (const double m : p.mean) mean_tolerance.push_back(kEps * std::abs(m));
    op.batch_mean = c.out(p.vector(), p.mean, mean_tolerance);
    op.batch_var = c.out(p.vector(), unbiased, var_tolerance);
    c.gradient(op.dx, p.x, [=](const auto& x) { return weighted(p.dy, p.forward(x, complex(p.w), complex(p.b))); });
    c.gradient(op.dw, p.w, [=](const auto& w) { return weighted(p.dy, p.forward(complex(p.x), w, complex(p.b))); });
    c.gradient(op.db, p.b, [=](const auto& b) { return weighted(p.dy, p.forward(complex(p.x), complex(p.w), b)); });
    cases.push_back(c.of(op, p.text()));
  }
}

// ---- element by element, and copies

const std::vector<Shape>& plain_shapes() {
  static const std::vector<Shape> shapes{{4, 28, 28, 6}, {1, 3, 5, 7}, {17, 84}, {3, 10}, {1, 1}, {77}};
  return shapes;
}

void add_cases(Cases& cases, Of<Relu>, DType type) {
  for (const Shape& shape : plain_shapes())
    for (const bool broken : {false, true}) {
      Case c(type);
      Doubles values = normal(type, at(shape.numel()), 1);
      values.front() = 0;
      Doubles expected = reference::relu(values);
      if (broken) values.back() = expected.back() = std::numeric_limits<double>::quiet_NaN();
      const ValueId x = c.wide_in(shape, values), y = c.exact_out(shape, expected);
      cases.push_back(c.of(Relu{x, y}, " ", to_string(shape), broken ? " with NaN" : ""));
    }
}

void add_cases(Cases& cases, Of<ReluGrad>, DType type) {
  for (const Shape& shape : plain_shapes()) {
    Case c(type);
    const Doubles x = normal(type, at(shape.numel()), 1), y = reference::relu(x), dy = normal(type, y.size(), 2);
    const ValueId result = c.wide_in(shape, y), d = c.wide_in(shape, dy),
                  dx = c.exact_out(shape, reference::relu_gradient(y, dy));
    c.gradient(dx, x, [=](const auto& v) { return weighted(dy, reference::relu(v)); });
    cases.push_back(c.of(ReluGrad{result, d, dx}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<Flatten>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const Doubles values = normal(type, at(shape.numel()), 1);
    const ValueId x = c.wide_in(shape, values), y = c.exact_out({shape[0], shape.numel() / shape[0]}, values);
    cases.push_back(c.of(Flatten{x, y}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<FlattenGrad>, DType type) {
  for (const Shape& shape : image_shapes()) {
    Case c(type);
    const Doubles values = normal(type, at(shape.numel()), 1);
    const ValueId dy = c.wide_in({shape[0], shape.numel() / shape[0]}, values), dx = c.exact_out(shape, values);
    cases.push_back(c.of(FlattenGrad{dy, dx}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<Add>, DType type) {
  for (const Shape& shape : plain_shapes()) {
    Case c(type);
    const Doubles a = normal(type, at(shape.numel()), 1), b = normal(type, at(shape.numel()), 2);
    Doubles sum;
    for (size_t i = 0; i < a.size(); ++i) sum.push_back(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    const ValueId left = c.wide_in(shape, a), right = c.wide_in(shape, b),
                  y = c.wide_out(shape, sum, Doubles(sum.size()));
    cases.push_back(c.of(Add{left, right, y}, " ", to_string(shape)));
  }
}

// ---- linear layers

struct LinearProblem {
  int64_t n, in, out;
  Doubles x, w, b, dy;
  LinearProblem(DType type, int64_t n_, int64_t in_, int64_t out_) : n(n_), in(in_), out(out_) {
    x = normal(type, at(n * in), 1);
    w = normal(type, at(in * out), 2);
    b = normal(at(out), 3);
    dy = normal(type, at(n * out), 4);
  }
  template <class T>
  std::vector<T> forward(const std::vector<T>& x_, const std::vector<T>& w_, const std::vector<T>& b_) const {
    return reference::linear(n, in, out, x_, w_, b_);
  }
  reference::LinearGradients gradients() const { return reference::linear_gradients(n, in, out, x, w, dy); }
  reference::LinearGradients square_gradients() const {
    return reference::linear_gradients(n, in, out, squares(x), squares(w), squares(dy));
  }
  std::string text() const { return str(" ", n, " of ", in, " -> ", out); }
};

std::vector<LinearProblem> linear_problems(DType type) {
  std::vector<LinearProblem> problems;
  for (const auto& [n, in, out] :
       std::vector<std::array<int64_t, 3>>{{4, 400, 120},
                                           {4, 120, 84},
                                           {4, 84, 10},
                                           {1, 400, 120},
                                           {1, 16, 1},
                                           {3, 120, 84},
                                           {7, 5, 3},
                                           {17, 84, 10},
                                           {17, 3072, 10},
                                           {133, 130, 18},
                                           {5, 512, 130}})  // more weights than GPUs' own kernels take
    problems.emplace_back(type, n, in, out);
  return problems;
}

void add_cases(Cases& cases, Of<Linear>, DType type) {
  for (const LinearProblem& p : linear_problems(type))
    for (const bool relu : {false, true}) {
      Case c(type);
      const ValueId x = c.wide_in({p.n, p.in}, p.x), w = c.wide_in({p.out, p.in}, p.w), b = c.in({p.out}, p.b);
      const Doubles plain = p.forward(p.x, p.w, p.b), expected = relu ? reference::relu(plain) : plain;
      const Doubles tolerance = rounding(p.forward(squares(p.x), squares(p.w), squares(p.b)), p.in + 1);
      // Logits stay f32 whatever the inputs are.
      const ValueId y = relu ? c.wide_out({p.n, p.out}, expected, tolerance) : c.out({p.n, p.out}, expected, tolerance);
      cases.push_back(c.of(Linear{x, w, b, y, relu}, p.text(), relu ? " with ReLU" : ""));
    }
}

/// The gradient of logits stays f32, like they.
std::vector<DType> dy_types(DType type, const LinearProblem& p) {
  return type == DType::f32 || p.out != 10 ? std::vector{type} : std::vector{type, DType::f32};
}
std::string dy_text(DType type, DType dy_type) { return type == dy_type ? "" : " from f32"; }

void add_cases(Cases& cases, Of<LinearGradX>, DType type) {
  for (const LinearProblem& p : linear_problems(type))
    for (const DType dy_type : dy_types(type, p)) {
      Case c(type);
      const ValueId w = c.wide_in({p.out, p.in}, p.w), dy = c.in({p.n, p.out}, p.dy, dy_type);
      const ValueId dx = c.wide_out({p.n, p.in}, p.gradients().dx, rounding(p.square_gradients().dx, p.out));
      c.gradient(dx, p.x, [=](const auto& x) { return weighted(p.dy, p.forward(x, complex(p.w), complex(p.b))); });
      cases.push_back(c.of(LinearGradX{w, dy, dx}, p.text(), dy_text(type, dy_type)));
    }
}

void add_cases(Cases& cases, Of<LinearGradW>, DType type) {
  for (const LinearProblem& p : linear_problems(type))
    for (const DType dy_type : dy_types(type, p)) {
      Case c(type);
      const auto g = p.gradients(), g2 = p.square_gradients();
      const ValueId x = c.wide_in({p.n, p.in}, p.x), dy = c.in({p.n, p.out}, p.dy, dy_type);
      const ValueId dw = c.out({p.out, p.in}, g.dw, rounding(g2.dw, p.n)),
                    db = c.out({p.out}, g.db, rounding(g2.db, p.n));
      c.gradient(dw, p.w, [=](const auto& w) { return weighted(p.dy, p.forward(complex(p.x), w, complex(p.b))); });
      c.gradient(db, p.b, [=](const auto& b) { return weighted(p.dy, p.forward(complex(p.x), complex(p.w), b)); });
      cases.push_back(c.of(LinearGradW{x, dy, dw, db}, p.text(), dy_text(type, dy_type)));
    }
}

// ---- loss

struct LossProblem {
  int64_t n, classes;
  float smoothing;
  Doubles z, labels;
  double scale = 1;  // of fp16 training

  template <class T>
  std::vector<T> row(const std::vector<T>& values, int64_t i) const {
    return {values.begin() + i * classes, values.begin() + (i + 1) * classes};
  }
  template <class T>
  T loss(const std::vector<T>& values, int64_t i) const {
    return reference::softmax_cross_entropy(row(values, i), static_cast<int64_t>(labels[at(i)]),
                                            static_cast<double>(smoothing));
  }
};

OpCase loss_case(const LossProblem& p, bool gradient, const std::string& text) {
  Case c;
  Doubles losses, predicted, larger, dlogits, loss_tolerance, dlogits_tolerance;
  for (int64_t i = 0; i < p.n; ++i) {
    const Doubles z = p.row(p.z, i);
    const auto label = static_cast<int64_t>(p.labels[at(i)]);
    double widest = 0, above = 0;
    for (const double v : z) widest = std::max(widest, std::abs(v)), above += v > z[at(label)];
    losses.push_back(p.loss(p.z, i));
    predicted.push_back(static_cast<double>(std::max_element(z.begin(), z.end()) - z.begin()));
    larger.push_back(above);
    loss_tolerance.push_back((4 + 2 * widest) * kEps);  // exponents up to 2 widest, rounded before exp
    for (double d : reference::softmax_cross_entropy_gradient(z, label, static_cast<double>(p.smoothing))) {
      dlogits.push_back(p.scale * d / static_cast<double>(p.n));
      dlogits_tolerance.push_back(p.scale * (4 + 2 * widest) * kEps / static_cast<double>(p.n));
    }
  }
  for (const double loss : losses)
    if (!std::isfinite(loss)) dlogits.assign(dlogits.size(), std::numeric_limits<double>::quiet_NaN());
  const ValueId z = c.in({p.n, p.classes}, p.z), labels = c.in({p.n}, p.labels, DType::i32);
  const ValueId loss = c.out({p.n}, losses, loss_tolerance);
  const ValueId best = c.out({p.n}, predicted, {}, DType::i32), more = c.out({p.n}, larger, {}, DType::i32);
  const ValueId dz = gradient ? c.out({p.n, p.classes}, dlogits, dlogits_tolerance) : kNone;
  const ValueId scale =
      p.scale == 1 ? kNone : c.in(shape_of<LossScaleState>(), bytes_of(LossScaleState{.scale = p.scale}), DType::u8);
  if (gradient && p.scale == 1 && std::isfinite(dlogits[0]))
    c.gradient(dz, p.z, [p](const std::vector<Complex>& values) {
      Complex mean = 0;
      for (int64_t i = 0; i < p.n; ++i) mean += p.loss(values, i) / static_cast<double>(p.n);
      return mean;
    });
  return c.of(SoftmaxCrossEntropy{z, labels, loss, best, more, dz, p.smoothing, scale}, " ", p.n, " of ", p.classes,
              " smoothing ", p.smoothing, gradient ? "" : " evaluation", text);
}

void add_cases(Cases& cases, Of<SoftmaxCrossEntropy>) {
  for (const int64_t n : {1, 3, 4, 17})
    for (const int64_t classes : {2, 10, 16, 100})
      for (const float smoothing : {0.0f, 0.1f}) {
        LossProblem p{n, classes, smoothing, normal(at(n * classes), 7, 3), {}};
        for (int64_t i = 0; i < n; ++i) p.labels.push_back(static_cast<double>((i * 7 + 1) % classes));
        cases.push_back(loss_case(p, true, ""));
        cases.push_back(loss_case(p, false, ""));
      }
  cases.push_back(loss_case({2, 10, 0, Doubles(20, 0.5), {3, 0}}, true, " of equal logits"));
  // One image's loss is not finite: the whole gradient is NaN, so that the step is skipped.
  LossProblem broken{3, 10, 0, normal(30, 7), {1, 2, 3}};
  broken.z[14] = std::numeric_limits<double>::infinity();
  cases.push_back(loss_case(broken, true, " with an infinite logit"));
  cases.push_back(loss_case({3, 10, 0.1f, normal(30, 7, 3), {1, 2, 3}, /*scale=*/0x1p15}, true, " scaled"));
}

// ---- update

void add_cases(Cases& cases, Of<TreePush>) {
  constexpr int64_t kN = 77;
  for (const int s : {2, 3, 4, 6, 8, 11}) {
    const auto leaves = random_leaves(s, kN);
    const int levels = static_cast<int>(std::bit_width(static_cast<unsigned>(s - 1)));
    /// Level k of a binary counter that has counted `count` leaves; empty where its bit is not set.
    const auto level = [&](int count, int k) {
      if ((count >> k & 1) == 0) return Doubles();
      const auto sum =
          reference_tree(std::span(leaves).subspan(static_cast<size_t>(count >> (k + 1) << (k + 1)), size_t{1} << k));
      return Doubles(sum.begin(), sum.end());
    };
    for (int i = 0; i < s; ++i) {
      const bool last = i == s - 1;
      Case c;
      TreePush op{.last = last};
      const Doubles leaf(leaves[at(i)].begin(), leaves[at(i)].end());
      const auto total = reference_tree(leaves);
      op.leaf = last ? c.in_out({kN}, leaf, Doubles(total.begin(), total.end())) : c.in({kN}, leaf);
      op.counter = c.in_out({1}, {static_cast<double>(i)}, {last ? 0.0 : i + 1.0}, {}, DType::i32);
      for (int k = 0; k < levels; ++k) {
        op.levels.push_back(c.in_out({kN}, level(i, k), last ? Doubles() : level(i + 1, k)));
      }
      cases.push_back(c.of(op, " leaf ", i, " of ", s));
    }
  }
}

void add_cases(Cases& cases, Of<SquareSums>) {
  using Chunk = SquareSums::Chunk;
  for (const std::vector<Chunk>& chunks : {std::vector<Chunk>{{{0, 1}, 0}},
                                           {{{0, 4096}, 2}, {{4096, 4097}, 0}, {{4112, 4115}, 3}},
                                           {{{0, 450}, 0}, {{464, 470}, 1}, {{480, 2880}, 2}, {{2880, 2896}, 3}}}) {
    Case c;
    const int64_t numel = round_up(chunks.back().range.end, kRowPad);
    Doubles grads(at(numel), std::numeric_limits<double>::quiet_NaN());  // NaN between the chunks
    Doubles before(5, -1), sums = before, tolerance(5);                  // sums of other chunks stay
    const Doubles values = normal(grads.size(), 5);
    for (const auto& [r, sum] : chunks) {
      sums[at(sum)] = 0;
      for (int64_t i = r.begin; i < r.end; ++i) sums[at(sum)] += (grads[at(i)] = values[at(i)]) * values[at(i)];
      tolerance[at(sum)] = static_cast<double>(r.size()) * std::numeric_limits<double>::epsilon() * sums[at(sum)];
    }
    const ValueId g = c.in({numel}, grads), out = c.in_out({5}, before, sums, tolerance, DType::f64);
    cases.push_back(c.of(SquareSums{g, out, chunks}, " ", numel, " in ", chunks.size(), " chunks"));
  }
}

const Shape kScalarsShape = shape_of<StepScalars>();

void add_cases(Cases& cases, Of<StepControl>) {
  const StepScalars before{
      .applied = 12, .skipped = 2, .bad_streak = 1, .window_begin = 10, .norm = -1, .grad_scale = -1};
  constexpr int64_t kRow = 1 + kCoefficients;  // lr and coefficients
  Doubles schedule;
  for (int i = 0; i < 3 * kRow; ++i) schedule.push_back(0.1 * i);
  const auto take_row = [&](StepScalars& s) {  // number 12 - 10
    std::copy_n(schedule.begin() + 2 * kRow + 1, kCoefficients, s.coefficients.begin());
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Doubles& sums : {Doubles{9, 16}, {1e-8}, {0, 0}, {infinity, 1}, {1, std::nan("")}})
    for (const double clip : {0.0, 0.5, 100.0})
      for (const int64_t leaves : {1, 3, 4}) {
        Case c;
        StepScalars after = before;
        double total = 0;
        for (const double sum : sums) total += sum;
        after.norm = std::sqrt(total) / static_cast<double>(leaves);
        after.lr = schedule[2 * kRow];  // of a skipped step too: what it would have been
        if (std::isfinite(after.norm)) {
          after.applied = 13, after.bad_streak = 0, after.skip = 0;
          take_row(after);
          after.grad_scale = 1 / static_cast<double>(leaves);
          if (clip > 0 && clip < after.norm + 1e-6)
            after.grad_scale = clip / (after.norm + 1e-6) / static_cast<double>(leaves);
        } else {
          after.skipped = 3, after.bad_streak = 2, after.skip = 1;
        }
        const ValueId s = c.in({static_cast<int64_t>(sums.size())}, sums, DType::f64);
        const ValueId rows = c.in({3 * kRow}, schedule, DType::f64);
        const ValueId scalars = c.in_out(kScalarsShape, bytes_of(before), bytes_of(after), {}, DType::u8);
        cases.push_back(c.of(StepControl{s, rows, scalars, clip, leaves}, " norm ", after.norm, " clip ", clip, " of ",
                             leaves, " micro-batches"));
      }

  // In fp16 the gradients carry a scale, which this step may move.
  struct Scaled {
    const char* text;
    bool overflow;
    LossScaleState before, after;
  };
  for (const Scaled& p : {Scaled{"of a clean step", false, {1024, 7, 2, 2}, {1024, 8, 2, 2}},
                          {"doubled", false, {1024, 7, 3, 1}, {2048, 8, 3, 2}},
                          {"of an endured overflow", true, {1024, 7, 2, 2}, {1024, 8, 7, 1}},
                          {"lowered", true, {1024, 7, 2, 1}, {512, 8, 7, 1}},
                          {"at its end", true, {1, 7, 2, 1}, {1, 8, 7, 1, /*diverged=*/1}}}) {
    Case c;
    StepScalars after = before;
    after.norm = p.overflow ? infinity : 5 / 1024.0 / 2;
    after.lr = schedule[2 * kRow];
    if (p.overflow)
      after.skipped = 3, after.bad_streak = 2, after.skip = 1;
    else
      take_row(after), after.applied = 13, after.bad_streak = 0, after.skip = 0, after.grad_scale = 1 / 1024.0 / 2;
    const ValueId s = c.in({2}, {p.overflow ? infinity : 9, 16}, DType::f64);
    const ValueId rows = c.in({3 * kRow}, schedule, DType::f64);
    const ValueId scalars = c.in_out(kScalarsShape, bytes_of(before), bytes_of(after), {}, DType::u8);
    const ValueId scale = c.in_out(shape_of<LossScaleState>(), bytes_of(p.before), bytes_of(p.after), {}, DType::u8);
    const LossScaleOptions options{.min = 1, .window = 4, .hysteresis = 2};
    cases.push_back(
        c.of(StepControl{s, rows, scalars, /*clip=*/0, /*micro_batches=*/2, scale, options}, " scale ", p.text));
  }
}

struct UpdateProblem {
  int64_t numel;
  bool skip;
  std::optional<DType> copy;  // what layers compute with, beside the masters
  StepScalars scalars{.grad_scale = 0.25, .lr = 0.01};
  /// Left alone by a skipped step.
  ValueId add_copy(Case& c, const Doubles& masters, Doubles tolerance) const {
    if (!copy) return kNone;
    const Shape shape{static_cast<int64_t>(masters.size())};
    if (skip) return c.in_out(shape, Doubles(masters.size(), 0.5), Doubles(masters.size(), 0.5), {}, *copy);
    for (size_t i = 0; i < masters.size(); ++i) tolerance[i] += rounding_to(*copy, std::abs(masters[i]) + tolerance[i]);
    return c.out(shape, masters, tolerance, *copy);
  }
  std::string text() const {
    return str(" ", numel, skip ? " skipped" : "", copy ? str(" with a", suffix(*copy), " copy") : "");
  }
};
std::vector<UpdateProblem> update_problems() {
  std::vector<UpdateProblem> problems;
  for (const std::optional<DType> copy : {std::optional<DType>(), {DType::f32}, {DType::bf16}, {DType::f16}}) {
    for (const int64_t numel : {1, 93, 128, 5000}) problems.push_back({numel, /*skip=*/false, copy});
    problems.push_back({128, /*skip=*/true, copy});
  }
  for (UpdateProblem& p : problems) p.scalars.skip = p.skip;
  return problems;
}

void add_cases(Cases& cases, Of<Cast>) {
  for (const DType type : kComputeTypes)
    for (const int64_t numel : {1, 16, 93, 5000}) {
      Case c;
      const Doubles values = normal(at(numel), 1);
      Doubles expected = values;
      for (double& v : expected) v = rounded(type, v);
      const ValueId x = c.in({numel}, values), y = c.out({numel}, expected, {}, type);
      cases.push_back(c.of(Cast{x, y}, " ", numel, " to ", name_of(type)));
    }
}

/// Every update has two slices.
std::array<int64_t, 2> slice_sizes(const UpdateProblem& p) { return {p.numel, 17}; }

void add_cases(Cases& cases, Of<Blend>) {
  for (const UpdateProblem& p : update_problems())
    for (const int64_t leaves : {1, 6}) {
      if (p.copy.value_or(DType::f32) != DType::f32) continue;  // statistics are vectors: f32
      Case c;
      Blend op{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8), .micro_batches = leaves};
      for (const int64_t numel : slice_sizes(p)) {
        const double momentum = op.slices.empty() ? 0.1 : 0.3;
        const auto n = at(numel);
        const Doubles running = normal(n, 1), sums = normal(n, 2);
        Doubles after = running, tolerance(n);
        for (size_t i = 0; i < n && !p.skip; ++i) {
          after[i] += momentum * (sums[i] / static_cast<double>(leaves) - running[i]);
          tolerance[i] = 2 * kEps * (std::abs(running[i]) + std::abs(sums[i]));
        }
        op.slices.push_back({.masters = c.in_out({numel}, running, after, tolerance),
                             .sums = c.in({numel}, sums),
                             .copy = p.add_copy(c, after, tolerance),
                             .momentum = momentum});
      }
      cases.push_back(c.of(std::move(op), p.text(), " of ", leaves, " micro-batches"));
    }
}

void add_cases(Cases& cases, Of<Adam>) {
  for (UpdateProblem p : update_problems())
    for (const AdamMode mode : {AdamMode::decoupled, AdamMode::l2})
      for (const double first_decay : {0.0, 0.1})
        for (const int step : {1, 30}) {
          Case c;
          const double beta1 = 0.8, beta2 = 0.999;
          const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
          p.scalars.coefficients = {beta1, beta2, correction1, correction2};
          Adam op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}, /*eps=*/1e-8, mode};
          for (const int64_t numel : slice_sizes(p)) {
            const double decay = op.slices.empty() ? first_decay : 0.2;
            const float lr_scale = op.slices.empty() ? 1 : 0.3f;
            const auto n = at(numel);
            const Doubles g = normal(n, 1), params = normal(n, 2), zeros(n);
            const Doubles m = step == 1 ? zeros : normal(n, 3), v = step == 1 ? zeros : squares(normal(n, 4, 0.1));
            Doubles v32 = v;
            for (double& x : v32) x = static_cast<float>(x);
            Doubles p_after = params, m_after = m, v_after = v32, p_tolerance(n), m_tolerance(n), v_tolerance(n);
            const reference::AdamOptions options{p.scalars.lr * lr_scale,    beta1, beta2, 1e-8, decay,
                                                 mode == AdamMode::decoupled};
            for (size_t i = 0; i < n && !p.skip; ++i) {
              const double scaled = g[i] * p.scalars.grad_scale;
              const auto e = reference::adam(options, {params[i], m[i], v32[i]}, scaled, correction1, correction2);
              // A handful of roundings of each term; the update inherits those of m, v and of its quotient.
              const double size = std::abs(scaled) + decay * std::abs(params[i]);
              const double update =
                  options.lr * (std::abs(m[i]) + size) / correction1 / (std::sqrt(e.v / correction2) + 1e-8);
              p_tolerance[i] = kEps * (std::abs(params[i]) + 12 * update + decay * std::abs(params[i]));
              m_tolerance[i] = 4 * kEps * (std::abs(m[i]) + size);
              v_tolerance[i] = 6 * kEps * (v32[i] + size * size);
              p_after[i] = e.p, m_after[i] = e.m, v_after[i] = e.v;
            }
            op.slices.push_back(
                {.masters = c.in_out({numel}, params, p_after, p_tolerance),
                 .grads = c.in({numel}, g),
                 .states = {c.in_out({numel}, m, m_after, m_tolerance), c.in_out({numel}, v32, v_after, v_tolerance)},
                 .copy = p.add_copy(c, p_after, p_tolerance),
                 .weight_decay = decay,
                 .lr_scale = lr_scale});
          }
          cases.push_back(c.of(std::move(op), p.text(), mode == AdamMode::decoupled ? " decoupled" : " L2", " decay ",
                               first_decay, " step ", step));
        }
}

void add_cases(Cases& cases, Of<Sgd>) {
  for (UpdateProblem p : update_problems())
    for (const double momentum : {0.0, 0.9})
      for (const bool nesterov : {false, true})
        for (const double first_decay : {0.0, 0.05}) {
          if (momentum == 0 && nesterov) continue;
          Case c;
          p.scalars.coefficients = {momentum};
          Sgd op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}, nesterov};
          for (const int64_t numel : slice_sizes(p)) {
            const double decay = op.slices.empty() ? first_decay : 0.1;
            const float lr_scale = op.slices.empty() ? 1 : 0.3f;
            const auto n = at(numel);
            const Doubles g = normal(n, 1), params = normal(n, 2), buffer = normal(n, 3);
            Doubles p_after = params, b_after = buffer, p_tolerance(n), b_tolerance(n);
            const reference::SgdOptions options{p.scalars.lr * lr_scale, momentum, decay, nesterov};
            for (size_t i = 0; i < n && !p.skip; ++i) {
              const auto e = reference::sgd(options, {params[i], buffer[i]}, g[i] * p.scalars.grad_scale);
              const double size = std::abs(g[i]) + decay * std::abs(params[i]) + momentum * std::abs(buffer[i]);
              p_tolerance[i] = kEps * (std::abs(params[i]) + 8 * options.lr * size);
              b_tolerance[i] = 4 * kEps * size;
              p_after[i] = e.p, b_after[i] = e.buffer;
            }
            op.slices.push_back({.masters = c.in_out({numel}, params, p_after, p_tolerance),
                                 .grads = c.in({numel}, g),
                                 .states = {momentum == 0 ? kNone : c.in_out({numel}, buffer, b_after, b_tolerance)},
                                 .copy = p.add_copy(c, p_after, p_tolerance),
                                 .weight_decay = decay,
                                 .lr_scale = lr_scale});
          }
          cases.push_back(c.of(std::move(op), p.text(), " momentum ", momentum, nesterov ? " Nesterov" : "", " decay ",
                               first_decay));
        }
}

void add_cases(Cases& cases, Of<RmsProp>) {
  for (UpdateProblem p : update_problems())
    for (const double momentum : {0.0, 0.9})
      for (const bool centered : {false, true})
        for (const double first_decay : {0.0, 0.05}) {
          Case c;
          p.scalars.coefficients = {momentum};
          RmsProp op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}, /*alpha=*/0.9, /*eps=*/1e-6};
          for (const int64_t numel : slice_sizes(p)) {
            const double decay = op.slices.empty() ? first_decay : 0.1;
            const float lr_scale = op.slices.empty() ? 1 : 0.3f;
            const auto n = at(numel);
            const Doubles g = normal(n, 1), params = normal(n, 2), buffer = normal(n, 3), mean = normal(n, 4, 0.1);
            Doubles square = squares(normal(n, 5));
            for (size_t i = 0; i < n; ++i)  // more than the mean's square, as a mean of squares is
              square[i] = static_cast<float>(square[i] + mean[i] * mean[i] + 0.05);
            Doubles after[4] = {params, square, buffer, mean}, tolerance[4];
            for (Doubles& t : tolerance) t.resize(n);
            const reference::RmsPropOptions options{
                p.scalars.lr * lr_scale, op.alpha, op.eps, decay, momentum, centered};
            for (size_t i = 0; i < n && !p.skip; ++i) {
              const auto e =
                  reference::rmsprop(options, {params[i], square[i], buffer[i], mean[i]}, g[i] * p.scalars.grad_scale);
              const double size = std::abs(g[i]) + decay * std::abs(params[i]) + std::abs(mean[i]);
              const double rest = e.square_avg - (centered ? e.grad_avg * e.grad_avg : 0);
              // Of the quotient: its own roundings, and what the difference under the root loses.
              const double quotient = size / (std::sqrt(rest) + op.eps);
              const double step = (4 + 4 * (e.square_avg + size * size) / rest) * quotient + std::abs(buffer[i]);
              after[0][i] = e.p, after[1][i] = e.square_avg, after[2][i] = e.buffer, after[3][i] = e.grad_avg;
              tolerance[0][i] = kEps * (std::abs(params[i]) + 4 * options.lr * step);
              tolerance[1][i] = 6 * kEps * (square[i] + size * size);
              tolerance[2][i] = 4 * kEps * step;
              tolerance[3][i] = 4 * kEps * size;
            }
            const ValueId masters = c.in_out({numel}, params, after[0], tolerance[0]), grads = c.in({numel}, g);
            op.slices.push_back({.masters = masters,
                                 .grads = grads,
                                 .states = {c.in_out({numel}, square, after[1], tolerance[1]),
                                            momentum == 0 ? kNone : c.in_out({numel}, buffer, after[2], tolerance[2]),
                                            centered ? c.in_out({numel}, mean, after[3], tolerance[3]) : kNone},
                                 .copy = p.add_copy(c, after[0], tolerance[0]),
                                 .weight_decay = decay,
                                 .lr_scale = lr_scale});
          }
          cases.push_back(c.of(std::move(op), p.text(), " momentum ", momentum, centered ? " centered" : "", " decay ",
                               first_decay));
        }
}

/// Layers come in every type that they compute with.
template <class Op>
void add_cases_of(Cases& cases, Of<Op> kind) {
  if constexpr (requires { add_cases(cases, kind, DType::f32); })
    for (const DType type : kComputeTypes) add_cases(cases, kind, type);
  else
    add_cases(cases, kind);
}

template <class... Ops>
Cases cases_of_all(Of<std::variant<Ops...>>) {
  Cases cases;
  (add_cases_of(cases, Of<Ops>{}), ...);
  return cases;
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const Cases cases = cases_of_all(Of<ComputeOp>{});
  return cases;
}

}  // namespace ct
