#include <array>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/activation.h"

namespace ct::cases {
namespace {

struct LinearProblem {
  Shape lead;  // all dimensions but the last
  int64_t n, in, out;
  Doubles x, w, b, dy;
  LinearProblem(DType type, const Shape& lead_, int64_t in_, int64_t out_)
      : lead(lead_), n(lead_.numel()), in(in_), out(out_) {
    x = normal(type, at(n * in), 1);
    w = normal(type, at(in * out), 2);
    b = normal(at(out), 3);
    dy = normal(type, at(n * out), 4);
  }
  Shape rows_of(int64_t columns) const {
    return lead.rank() == 1 ? Shape{lead[0], columns} : Shape{lead[0], lead[1], columns};
  }
  template <class T>
  std::vector<T> forward(const std::vector<T>& x_, const std::vector<T>& w_, const std::vector<T>& b_) const {
    return reference::linear(n, in, out, x_, w_, b_);
  }
  /// The sums and what rounding may do to them, with the bias or without.
  Doubles sums(bool bias) const { return forward(x, w, bias ? b : Doubles(b.size())); }
  Doubles tolerance(bool bias) const {
    return rounding(forward(squares(x), squares(w), bias ? squares(b) : Doubles(b.size())), in + 1);
  }
  reference::LinearGradients gradients() const { return reference::linear_gradients(n, in, out, x, w, dy); }
  reference::LinearGradients square_gradients() const {
    return reference::linear_gradients(n, in, out, squares(x), squares(w), squares(dy));
  }
  std::string text() const {
    return str(" ", lead.rank() == 1 ? std::to_string(n) : to_string(lead), " of ", in, " -> ", out);
  }
};

/// Of tokens: by own kernels, and more weights (and rows) than those take, with pads at the end of either's rows.
std::vector<LinearProblem> token_problems(DType type) {
  std::vector<LinearProblem> problems;
  problems.emplace_back(type, Shape{2, 3}, 20, 24);
  problems.emplace_back(type, Shape{4, 5}, 264, 250);
  return problems;
}

std::vector<LinearProblem> linear_problems(DType type) {
  std::vector<LinearProblem> problems;
  for (const auto& [n, in, out] : std::vector<std::array<int64_t, 3>>{{4, 400, 120},
                                                                      {4, 120, 84},
                                                                      {4, 84, 10},
                                                                      {1, 400, 120},
                                                                      {1, 16, 1},
                                                                      {3, 120, 84},
                                                                      {7, 5, 3},
                                                                      {17, 84, 10},
                                                                      {17, 3072, 10},
                                                                      {133, 130, 18}})
    problems.emplace_back(type, Shape{n}, in, out);
  for (LinearProblem& p : token_problems(type)) problems.push_back(std::move(p));
  problems.emplace_back(type, Shape{5}, 512, 130);  // more weights than GPUs' own kernels take
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
      const ValueId x = c.wide_in(p.rows_of(p.in), p.x), w = c.wide_in({p.out, p.in}, p.w), b = c.in({p.out}, p.b);
      const Doubles plain = p.sums(true), expected = relu ? reference::relu(plain) : plain;
      const Doubles tolerance = p.tolerance(true);
      const Shape shape = p.rows_of(p.out);
      // Logits stay f32 whatever the inputs are.
      const ValueId y =
          relu || p.lead.rank() > 1 ? c.wide_out(shape, expected, tolerance) : c.out(shape, expected, tolerance);
      const Activation activation = relu ? Activation::relu : Activation::none;
      cases.push_back(c.of(Linear{x, w, b, y, activation}, p.text(), relu ? " with ReLU" : ""));
    }
  for (const LinearProblem& p : token_problems(type))
    for (const Activation kind : kActivations)
      for (const bool bias : {true, false})
        for (const bool train : {true, false}) {
          if (is_fused(kind) && (bias || train)) continue;
          Case c(type);
          const ValueId x = c.wide_in(p.rows_of(p.in), p.x), w = c.wide_in({p.out, p.in}, p.w);
          const ValueId b = bias ? c.in({p.out}, p.b) : kNone;
          const Doubles sums = p.sums(bias), tolerance = p.tolerance(bias);
          Doubles y_tolerance;  // of the sums as they are stored, where they are
          for (size_t i = 0; i < sums.size(); ++i) {
            const auto [value, derivative, slope] = reference::activation_errors(kind, sums[i]);
            const double stored = is_fused(kind) ? 0 : rounding_to(type, std::abs(sums[i]) + tolerance[i]);
            y_tolerance.push_back(slope * (tolerance[i] + stored) + value);
          }
          const ValueId y = c.wide_out(p.rows_of(p.out), reference::activation(kind, sums), y_tolerance);
          const ValueId before = train ? c.wide_out(p.rows_of(p.out), sums, tolerance) : kNone;
          cases.push_back(c.of(Linear{x, w, b, y, kind, before}, p.text(), " with ", names_of(kind).forward,
                               bias ? "" : " without bias", train ? "" : " alone"));
        }
}

void add_cases(Cases& cases, Of<LinearGradX>, DType type) {
  for (const LinearProblem& p : linear_problems(type))
    for (const DType dy_type : dy_types(type, p)) {
      Case c(type);
      const ValueId w = c.wide_in({p.out, p.in}, p.w), dy = c.in(p.rows_of(p.out), p.dy, dy_type);
      const ValueId dx = c.wide_out(p.rows_of(p.in), p.gradients().dx, rounding(p.square_gradients().dx, p.out));
      c.gradient(dx, p.x, [=](const auto& x) { return weighted(p.dy, p.forward(x, complex(p.w), complex(p.b))); });
      cases.push_back(c.of(LinearGradX{w, dy, dx}, p.text(), dy_text(type, dy_type)));
    }
}

void add_cases(Cases& cases, Of<LinearGradW>, DType type) {
  for (const LinearProblem& p : linear_problems(type))
    for (const DType dy_type : dy_types(type, p))
      for (const bool bias : {true, false}) {
        if (!bias && p.lead.rank() == 1) continue;
        Case c(type);
        const auto g = p.gradients(), g2 = p.square_gradients();
        const ValueId x = c.wide_in(p.rows_of(p.in), p.x), dy = c.in(p.rows_of(p.out), p.dy, dy_type);
        const ValueId dw = c.out({p.out, p.in}, g.dw, rounding(g2.dw, p.n)),
                      db = bias ? c.out({p.out}, g.db, rounding(g2.db, p.n)) : kNone;
        c.gradient(dw, p.w, [=](const auto& w) { return weighted(p.dy, p.forward(complex(p.x), w, complex(p.b))); });
        if (bias)
          c.gradient(db, p.b, [=](const auto& b) { return weighted(p.dy, p.forward(complex(p.x), complex(p.w), b)); });
        cases.push_back(
            c.of(LinearGradW{x, dy, dw, db}, p.text(), dy_text(type, dy_type), bias ? "" : " without bias"));
      }
}

}  // namespace ct::cases
