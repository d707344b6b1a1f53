#include "selftest/reference/layer_norm.h"

#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {
namespace {

struct LayerNormProblem {
  DType type;
  Shape shape;
  double offset;  // of x, whose standard deviation is about 2
  bool has_residual;
  reference::LayerNorm s;
  Doubles x, residual, sum, w, b, dy, dsum, n, mean, rstd;

  LayerNormProblem(DType type_, const Shape& shape_, double offset_, bool residual_)
      : type(type_), shape(shape_), offset(offset_), has_residual(residual_), s{shape_.rows(), shape_.columns()} {
    const size_t numel = at(shape.numel());
    x = normal(numel, 1, 2);
    for (double& v : x) v = rounded(type, static_cast<float>(v + offset));
    sum = x;
    if (has_residual) residual = normal(type, numel, 2);
    for (size_t i = 0; i < residual.size(); ++i)
      sum[i] = rounded(type, static_cast<float>(x[i]) + static_cast<float>(residual[i]));
    w = normal(at(s.columns), 3), b = normal(at(s.columns), 4);
    dy = normal(type, numel, 5);
    if (has_residual) dsum = normal(type, numel, 6);
    n = normalised(s, sum);
    mean = row_means(s, sum);
    for (const double var : row_variances(s, sum)) rstd.push_back(1 / std::sqrt(var + s.eps));
  }
  size_t row(size_t i) const { return i / w.size(); }
  Shape rows() const { return {s.rows}; }
  Shape columns() const { return {s.columns}; }
  /// Roundings of a sum over a row, in parts that stand side by side.
  double terms() const { return 4 + std::sqrt(static_cast<double>(s.columns)); }
  Doubles mean_tolerance() const {
    Doubles t;
    for (size_t r = 0; r < mean.size(); ++r) t.push_back(kEps * terms() * (std::abs(mean[r]) + 1 / rstd[r]));
    return t;
  }
  /// Distances to the mean are squared, so what it is off by counts squared.
  Doubles rstd_tolerance() const {
    const Doubles off = mean_tolerance();
    Doubles t;
    for (size_t r = 0; r < rstd.size(); ++r)
      t.push_back(rstd[r] * (kEps * terms() + off[r] * off[r] * rstd[r] * rstd[r]));
    return t;
  }
  Doubles y_tolerance() const {
    const Doubles mean_off = mean_tolerance(), rstd_off = rstd_tolerance();
    Doubles t;
    for (size_t i = 0; i < n.size(); ++i) {
      const size_t r = row(i), c = i % w.size();
      const double n_off = mean_off[r] * rstd[r] + std::abs(n[i]) * (rstd_off[r] / rstd[r] + 4 * kEps);
      t.push_back(std::abs(w[c]) * n_off + 2 * kEps * std::abs(b[c]));
    }
    return t;
  }
  std::string text() const {
    return str(" ", to_string(shape), " around ", offset, has_residual ? " with residual" : "");
  }
};

/// Rows of whole vectors and not, of one element; more rows than one run of sums, or one part.
std::vector<LayerNormProblem> layer_norm_problems(DType type) {
  std::vector<LayerNormProblem> problems;
  for (const Shape& shape : {Shape{2, 5, 48}, {3, 33}, {2, 3, 130}, {1, 1}, {70, 16}, {1, 2, 7}})
    for (const bool residual : {false, true})
      for (const double offset : {0.5, 100.0}) problems.push_back({type, shape, offset, residual});
  return problems;
}

}  // namespace

void add_cases(Cases& cases, Of<LayerNorm>, DType type) {
  for (const LayerNormProblem& p : layer_norm_problems(type))
    for (const bool train : {true, false}) {
      Case c(type);
      LayerNorm op{.residual = kNone, .sum = kNone, .mean = kNone, .rstd = kNone, .eps = p.s.eps};
      op.x = c.wide_in(p.shape, p.x);
      if (p.has_residual) op.residual = c.wide_in(p.shape, p.residual);
      op.w = c.in(p.columns(), p.w), op.b = c.in(p.columns(), p.b);
      if (p.has_residual) op.sum = c.exact_out(p.shape, p.sum);
      op.y = c.wide_out(p.shape, layer_norm(p.s, p.sum, p.w, p.b), p.y_tolerance());
      if (train) {
        op.mean = c.out(p.rows(), p.mean, p.mean_tolerance());
        op.rstd = c.out(p.rows(), p.rstd, p.rstd_tolerance());
      }
      cases.push_back(c.of(op, p.text(), train ? "" : " without statistics"));
    }
}

void add_cases(Cases& cases, Of<LayerNormGrad>, DType type) {
  std::vector<LayerNormProblem> problems = layer_norm_problems(type);
  if (type == DType::f32) problems.push_back({type, {513 * 32 + 7, 3}, 0.5, false});  // more than a tile in each part
  for (const LayerNormProblem& p : problems)
    for (const bool input : {true, false}) {
      Case c(type);
      const auto g = layer_norm_gradients(p.s, p.sum, p.w, p.dy);
      const auto columns = static_cast<double>(p.s.columns);
      // The given statistics are rounded: n is off by as much.
      Doubles n_off, dw_squares(p.w.size()), db_squares(p.w.size()), dw_off(p.w.size()), g_squares(p.mean.size()),
          gn_squares(p.mean.size()), gn_off(p.mean.size()), g_mean(p.mean.size()), gn_mean(p.mean.size());
      for (size_t i = 0; i < p.n.size(); ++i) {
        const size_t r = p.row(i), ch = i % p.w.size();
        n_off.push_back(kEps * (std::abs(p.mean[r]) * p.rstd[r] + 3 * std::abs(p.n[i])));
        const double gradient = p.dy[i] * p.w[ch], product = gradient * p.n[i];
        dw_squares[ch] += p.dy[i] * p.dy[i] * p.n[i] * p.n[i];
        db_squares[ch] += p.dy[i] * p.dy[i];
        dw_off[ch] += std::abs(p.dy[i]) * n_off[i];
        g_squares[r] += gradient * gradient, gn_squares[r] += product * product;
        gn_off[r] += std::abs(gradient) * n_off[i] / columns;
        g_mean[r] += gradient / columns, gn_mean[r] += product / columns;
      }
      Doubles dw_tolerance = rounding(dw_squares, p.s.rows), dx = g.dx, dx_tolerance;
      for (size_t ch = 0; ch < dw_off.size(); ++ch) dw_tolerance[ch] += dw_off[ch];
      for (size_t i = 0; i < dx.size(); ++i) {
        const size_t r = p.row(i);
        const double gradient = std::abs(p.dy[i] * p.w[i % p.w.size()]), sums = kEps * 2 * p.terms() / columns;
        const double off = sums * std::sqrt(g_squares[r]) +
                           std::abs(p.n[i]) * (sums * std::sqrt(gn_squares[r]) + gn_off[r]) +
                           std::abs(gn_mean[r]) * n_off[i] +
                           4 * kEps * (gradient + std::abs(g_mean[r]) + std::abs(p.n[i] * gn_mean[r]));
        if (p.has_residual) dx[i] += p.dsum[i];
        dx_tolerance.push_back(p.rstd[r] * off + kEps * (std::abs(dx[i]) + 2 * std::abs(g.dx[i])));
      }
      LayerNormGrad op{.dsum = kNone, .dx = kNone};
      op.x = c.wide_in(p.shape, p.sum), op.dy = c.wide_in(p.shape, p.dy);
      if (p.has_residual && input) op.dsum = c.wide_in(p.shape, p.dsum);
      op.w = c.in(p.columns(), p.w), op.mean = c.in(p.rows(), p.mean), op.rstd = c.in(p.rows(), p.rstd);
      if (input) op.dx = c.wide_out(p.shape, dx, dx_tolerance);
      op.dw = c.out(p.columns(), g.dw, dw_tolerance);
      op.db = c.out(p.columns(), g.db, rounding(db_squares, p.s.rows));
      const auto loss = [=](const auto& x, const auto& w, const auto& b) {
        Complex sum = weighted(p.dy, layer_norm(p.s, x, w, b));
        return p.has_residual ? sum + weighted(p.dsum, x) : sum;
      };
      if (input) c.gradient(op.dx, p.sum, [=](const auto& x) { return loss(x, complex(p.w), complex(p.b)); });
      c.gradient(op.dw, p.w, [=](const auto& w) { return loss(complex(p.sum), w, complex(p.b)); });
      c.gradient(op.db, p.b, [=](const auto& b) { return loss(complex(p.sum), complex(p.w), b); });
      cases.push_back(c.of(op, p.text(), input ? "" : " without dx"));
    }
}

}  // namespace ct::cases
