#include <array>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/dense.h"

namespace ct::cases {
namespace {

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

/// The gradient of logits stays f32, like they.
std::vector<DType> dy_types(DType type, const LinearProblem& p) {
  return type == DType::f32 || p.out != 10 ? std::vector{type} : std::vector{type, DType::f32};
}
std::string dy_text(DType type, DType dy_type) { return type == dy_type ? "" : " from f32"; }

}  // namespace

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

}  // namespace ct::cases
