#include <algorithm>
#include <cmath>
#include <memory>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/cases/conv_problem.h"

namespace ct::cases {
namespace {

struct PoolProblem : ConvProblem {
  Doubles y, tolerance, argmax_tolerance, dy;
  Bytes argmax;

  PoolProblem(DType type_, const reference::Conv& conv, bool is_planar)
      : ConvProblem(type_, conv, is_planar, /*pool=*/2) {
    y = conv_relu_pool(s, x, w, b, argmax);
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
            argmax_tolerance.push_back(candidates > 1 ? 4 : 0);
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
  add({1, 3, 6, 70, 2, 3, 1, 0}, false);    // several tiles in a row
  add({2, 2, 8, 9, 3, 4, 1, 0}, false);     // an even kernel
  add({1, 20, 6, 6, 18, 3, 1, 0}, false);   // more channels than slices
  add({1, 9, 17, 16, 2, 15, 1, 0}, false);  // the largest kernel
  add({1, 2, 16, 17, 9, 15, 1, 0}, true);
  return problems;
}

}  // namespace

void add_cases(Cases& cases, Of<ConvReluPool>, DType type) {
  for (const auto& p : pool_problems(type)) {
    Case c(type);
    const ValueId x = c.wide_in(p->x_shape, p->x_stored), w = c.wide_in(p->w_shape, p->w), b = c.in(p->b_shape, p->b);
    const ValueId y = c.wide_out(p->y_shape, p->y, p->tolerance);
    const ValueId argmax = c.out(p->y_shape, doubles(p->argmax), p->argmax_tolerance, DType::u8);
    cases.push_back(c.of(ConvReluPool{x, w, b, y, argmax, p->kernel(), p->planar}, p->text()));
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
                  argmax = c.out(q.y_shape, doubles(places), {}, DType::u8);
    cases.push_back(c.of(ConvReluPool{x, w, b, y, argmax, q.kernel(), q.planar}, q.text(), " of small integers"));
  }
}

void add_cases(Cases& cases, Of<ConvReluPoolGradW>, DType type) {
  std::vector<std::shared_ptr<const PoolProblem>> problems = pool_problems(type);
  if (type == DType::f32)  // sums in parts of many images, more than lanes, and of tiles of one
    for (const reference::Conv& s : {reference::Conv{40, 1, 48, 48, 1, 1, 1, 0}, {1, 3, 9, 400, 2, 3, 1, 0}})
      problems.push_back(std::make_shared<PoolProblem>(type, s, /*is_planar=*/false));
  for (const auto& p : problems) {
    Case c(type);
    const auto g = conv_relu_pool_gradients(p->s, p->x, p->w, p->dy, p->argmax);
    const auto g2 = conv_relu_pool_gradients(p->s, squares(p->x), squares(p->w), squares(p->dy), p->argmax);
    const int64_t terms = p->y_shape.numel() / p->s.out;
    const ValueId x = c.wide_in(p->x_shape, p->x_stored), dy = c.wide_in(p->y_shape, p->dy);
    const ValueId argmax = c.in(p->y_shape, doubles(p->argmax), DType::u8);
    const ValueId dw = c.out(p->w_shape, g.dw, rounding(g2.dw, terms));
    const ValueId db = c.out(p->b_shape, g.db, rounding(g2.db, terms));
    Bytes unused;
    c.gradient(dw, p->w, [=](const auto& w) mutable {
      return weighted(p->dy, conv_relu_pool(p->s, complex(p->x), w, complex(p->b), unused));
    });
    c.gradient(db, p->b, [=](const auto& b) mutable {
      return weighted(p->dy, conv_relu_pool(p->s, complex(p->x), complex(p->w), b, unused));
    });
    cases.push_back(c.of(ConvReluPoolGradW{x, dy, argmax, dw, db, p->kernel(), p->planar}, p->text()));
  }
}

void add_cases(Cases& cases, Of<ConvReluPoolGradX>, DType type) {
  for (const auto& p : pool_problems(type)) {
    if (p->planar) continue;
    Case c(type);
    const ValueId w = c.wide_in(p->w_shape, p->w), dy = c.wide_in(p->y_shape, p->dy);
    const ValueId argmax = c.in(p->y_shape, doubles(p->argmax), DType::u8);
    const ValueId dx =
        c.wide_out(p->x_shape, conv_relu_pool_gradients(p->s, p->x, p->w, p->dy, p->argmax).dx,
                   rounding(conv_relu_pool_gradients(p->s, squares(p->x), squares(p->w), squares(p->dy), p->argmax).dx,
                            p->s.kernel * p->s.kernel * p->s.out));
    Bytes unused;
    c.gradient(dx, p->x, [=](const auto& x) mutable {
      return weighted(p->dy, conv_relu_pool(p->s, x, complex(p->w), complex(p->b), unused));
    });
    cases.push_back(c.of(ConvReluPoolGradX{w, dy, argmax, dx, p->kernel()}, p->text()));
  }
}

}  // namespace ct::cases
