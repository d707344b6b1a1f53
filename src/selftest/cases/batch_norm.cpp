#include "selftest/reference/batch_norm.h"

#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {
namespace {

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
  bool may_have_mask() const { return relu && has_residual && type != DType::f32 && s.channels % 8 == 0; }
  Doubles mask() const {
    Doubles bytes(y.size() / 8);
    for (size_t i = 0; i < y.size(); ++i)
      if (!(y[i] <= 0)) bytes[i / 8] += 1 << i % 8;
    return bytes;
  }
  double sigma(size_t c) const { return std::sqrt(var[c] + s.eps); }
  Shape vector() const { return {s.channels}; }
  /// Tolerance of means: sums of numbers of size sigma around a channel's first element, which is as large as its mean.
  Doubles mean_tolerance() const {
    Doubles t;
    for (size_t c = 0; c < mean.size(); ++c) t.push_back(kEps * (std::abs(mean[c]) + 8 * sigma(c)));
    return t;
  }
  /// Tolerance of variances: squared distances from a first element that is at most a few sigma away, so that what
  /// cancels is a few times the result.
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
  problems.push_back({type, {1, 50, 22, 8}, 0.5, true, true});  // rows of several parts
  return problems;
}

}  // namespace

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

namespace {
/// Of a frozen layer.
void add_given_case(Cases& cases, const NormProblem& p) {
  Case c(p.type);
  Doubles var = squares(normal(p.w.size(), 7)), dx_tolerance;
  for (double& v : var) v = static_cast<float>(v + 2);
  const Doubles mean(p.w.size());
  const Doubles y = batch_norm(p.s, p.x, mean, var, p.w, p.b, p.residual, p.relu);
  const auto g = batch_norm_gradients_by_given(p.s, var, p.relu ? y : Doubles(), p.dy, p.w);
  for (const double dx : g.dx) dx_tolerance.push_back(4 * kEps * std::abs(dx));
  BatchNormGrad op{.x = kNone,
                   .y = kNone,
                   .mask = kNone,
                   .b = kNone,
                   .dresidual = kNone,
                   .dw = kNone,
                   .db = kNone,
                   .batch_mean = kNone,
                   .batch_var = kNone,
                   .eps = p.s.eps};
  if (p.relu) op.y = c.wide_in(p.shape, y);
  op.dy = c.wide_in(p.shape, p.dy);
  op.w = c.in(p.vector(), p.w), op.mean = c.in(p.vector(), mean), op.var = c.in(p.vector(), var);
  op.dx = c.wide_out(p.shape, g.dx, dx_tolerance);
  if (p.has_residual) op.dresidual = c.exact_out(p.shape, g.g);
  c.gradient(op.dx, p.x, [=](const auto& x) {
    return weighted(
        p.dy, batch_norm(p.s, x, complex(mean), complex(var), complex(p.w), complex(p.b), complex(p.residual), p.relu));
  });
  cases.push_back(c.of(op, p.text(), " by running statistics"));
}
}  // namespace

void add_cases(Cases& cases, Of<BatchNormGrad>, DType type) {
  for (const NormProblem& p : norm_problems(type)) {
    if (p.offset < 1) add_given_case(cases, p);
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
    BatchNormGrad op{.y = kNone, .mask = kNone, .b = kNone, .dresidual = kNone, .eps = p.s.eps};
    op.x = c.wide_in(p.shape, p.x);
    if (p.relu) op.y = c.wide_in(p.shape, p.y);
    if (p.may_have_mask()) op.mask = c.in({p.shape.numel() / 8}, p.mask(), DType::u8);
    op.dy = c.wide_in(p.shape, p.dy);
    op.w = c.in(p.vector(), p.w), op.mean = c.in(p.vector(), p.mean), op.var = c.in(p.vector(), p.var);
    op.b = p.relu && !p.has_residual ? c.in(p.vector(), p.b) : kNone;
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

}  // namespace ct::cases
