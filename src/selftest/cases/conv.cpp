#include <memory>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/cases/conv_problem.h"

namespace ct::cases {
namespace {

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
  add({4, 32, 9, 9, 24, 1, 2, 0}, false);   // a shortcut of stride 2
  for (const int64_t width : {4, 12, 32}) add({2, width, 32, 32, 2 * width, 1, 2, 0}, false);  // of longer rows
  add({2, 16, 32, 34, 20, 1, 2, 0}, false);
  add({3, 64, 32, 32, 128, 1, 2, 0}, false);
  add({1, 3, 16, 16, 64, 7, 2, 3}, true);  // the large stem's
  add({3, 3, 17, 22, 8, 7, 2, 3}, true);
  add({2, 1, 9, 5, 16, 7, 2, 3}, true);
  add({2, 3, 23, 19, 8, 11, 4, 2}, true);   // strides that a GPU replaces by larger pixels
  add({2, 3, 14, 17, 8, 6, 3, 0}, true);    // with rows and columns that no window reads
  add({2, 12, 15, 14, 8, 7, 2, 3}, false);  // and with the gradient of the input
  return problems;
}

}  // namespace

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

}  // namespace ct::cases
