#include "selftest/reference/fff.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/activation.h"

namespace ct::cases {
namespace {

reference::ActivationErrors gelu_errors(double x) { return reference::activation_errors(Activation::gelu, x); }

struct FffProblem {
  Shape lead;  // all dimensions but the last
  int64_t in, out;
  FffTrees trees;

  int64_t rows() const { return lead.numel(); }
  Shape rows_of(int64_t columns) const {
    return lead.rank() == 1 ? Shape{lead[0], columns} : Shape{lead[0], lead[1], columns};
  }
  std::string text() const {
    return str(" ", to_string(rows_of(in)), " -> ", out, " by ", trees.count, " of depth ", trees.depth,
               trees.fanout == 2 ? "" : str(" fan-out ", trees.fanout));
  }
};

/// Pads at the end of all rows, the sizes of the originals, several trees, no decision at all.
const std::vector<FffProblem>& fff_problems() {
  static const std::vector<FffProblem> problems{
      {{5}, 20, 24, {1, 3, 2}},   {{2, 9}, 7, 5, {1, 1, 2}}, {{2, 3}, 64, 130, {1, 7, 2}}, {{4}, 33, 48, {1, 3, 4}},
      {{3, 4}, 16, 9, {3, 2, 2}}, {{6}, 12, 17, {2, 2, 3}},  {{3}, 5, 3, {2, 0, 5}},       {{1}, 1, 1, {1, 0, 2}}};
  return problems;
}

/// Is every decision so clear that `error` of a sum changes none of them?
template <class Error>
bool clear(const FffTrees& trees, const double* sums, Error error) {
  std::vector<reference::Decision> decisions;
  reference::visited(trees, sums, &decisions);
  return std::ranges::all_of(decisions, [&](const auto& d) { return d.margin > 4 * error(d.sum); });
}

}  // namespace

/// Sums are compared as they are stored, so that equal ones are equal everywhere: some are 0 and some are alike.
void add_cases(Cases& cases, Of<TreeGelu>, DType type) {
  for (const FffProblem& p : fff_problems())
    for (const bool broken : {false, true}) {
      Case c(type);
      Doubles values = normal(type, at(p.rows() * p.trees.width()), 1, 2), tolerance;
      values.front() = 0;
      if (p.trees.group() > 1) values[at(p.trees.group() - 1)] = values[at(p.trees.group() - 2)] = 6;
      if (broken) values.front() = std::numeric_limits<double>::quiet_NaN();
      const Doubles expected = reference::tree_gelu(p.trees, values);
      for (size_t i = 0; i < values.size(); ++i)
        tolerance.push_back(expected[i] == 0 || std::isnan(expected[i]) ? 0 : gelu_errors(values[i]).value);
      const Shape shape = p.rows_of(p.trees.width());
      const ValueId x = c.wide_in(shape, values), y = c.wide_out(shape, expected, tolerance);
      cases.push_back(c.of(TreeGelu{x, y, p.trees}, p.text(), broken ? " with NaN" : ""));
    }
}

void add_cases(Cases& cases, Of<TreeGeluGrad>, DType type) {
  for (const FffProblem& p : fff_problems()) {
    Case c(type);
    const Doubles x = normal(type, at(p.rows() * p.trees.width()), 1, 2), dy = normal(type, x.size(), 2);
    const Doubles expected = reference::tree_gelu_gradient(p.trees, x, dy);
    Doubles tolerance;
    for (size_t i = 0; i < x.size(); ++i)
      tolerance.push_back(expected[i] == 0 ? 0 : std::abs(dy[i]) * gelu_errors(x[i]).derivative);
    const Shape shape = p.rows_of(p.trees.width());
    const ValueId before = c.wide_in(shape, x), d = c.wide_in(shape, dy), dx = c.wide_out(shape, expected, tolerance);
    c.gradient(dx, x, [=, trees = p.trees](const auto& v) { return weighted(dy, reference::tree_gelu(trees, v)); });
    cases.push_back(c.of(TreeGeluGrad{before, d, dx, p.trees}, p.text()));
  }
}

/// Of inputs whose ways rounding does not change: rows where a decision is close are drawn again. A device may round
/// sums, biases and values to the type on the way.
void add_cases(Cases& cases, Of<Fff>, DType type) {
  for (const FffProblem& p : fff_problems()) {
    Case c(type);
    const int64_t units = p.trees.width();
    const double scale = 2 / std::sqrt(static_cast<double>(p.in));
    const Doubles w_in = normal(type, at(units * p.in), 2, scale), b_in = normal(at(units), 3),
                  w_out = normal(type, at(p.out * units), 4);
    double bias = 0;
    for (const double b : b_in) bias = std::max(bias, std::abs(b));
    Doubles x, sums, errors;  // of sums
    for (uint32_t seed = 5; std::ssize(x) < p.rows() * p.in; ++seed) {
      const Doubles row = normal(type, at(p.in), seed), of_row = reference::linear(1, p.in, units, row, w_in, b_in);
      const Doubles squared = reference::linear(1, p.in, units, squares(row), squares(w_in), squares(b_in));
      Doubles error = rounding(squared, p.in + 1);
      const double most = *std::ranges::max_element(error);
      const auto rounded_sum = [&](double sum) { return rounding_to(type, std::abs(sum)) + rounding_to(type, bias); };
      if (!clear(p.trees, of_row.data(), [&](double sum) { return most + rounded_sum(sum); })) continue;
      for (size_t u = 0; u < error.size(); ++u) error[u] += rounded_sum(of_row[u]);
      x.insert(x.end(), row.begin(), row.end());
      sums.insert(sums.end(), of_row.begin(), of_row.end());
      errors.insert(errors.end(), error.begin(), error.end());
    }
    const Doubles values = reference::tree_gelu(p.trees, sums);
    Doubles value_errors;
    for (size_t i = 0; i < sums.size(); ++i)
      value_errors.push_back(values[i] == 0 ? 0
                                            : gelu_errors(sums[i]).slope * errors[i] + gelu_errors(sums[i]).value +
                                                  rounding_to(type, std::abs(values[i]) + errors[i]));
    const auto last = [&](const Doubles& v, const Doubles& w) {
      return reference::linear(p.rows(), units, p.out, v, w, Doubles(at(p.out)));
    };
    Doubles absolute = w_out;
    for (double& w : absolute) w = std::abs(w);
    Doubles tolerance = rounding(last(squares(values), squares(w_out)), p.trees.visited());
    const Doubles carried = last(value_errors, absolute);
    for (size_t i = 0; i < tolerance.size(); ++i) tolerance[i] += carried[i];
    const ValueId from = c.wide_in(p.rows_of(p.in), x), first = c.wide_in({units, p.in}, w_in),
                  added = c.in({units}, b_in), second = c.wide_in({p.out, units}, w_out),
                  y = c.wide_out(p.rows_of(p.out), last(values, w_out), tolerance);
    cases.push_back(c.of(Fff{from, first, added, second, y, p.trees}, p.text()));
  }
}

}  // namespace ct::cases
