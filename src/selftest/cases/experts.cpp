#include "selftest/reference/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/loss_scale.h"
#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {
namespace {

using reference::Routed;
using reference::RoutingSizes;

constexpr DropoutKey kKeys[] = {{42, 0, 0}, {~uint64_t{0}, (int64_t{1} << 32) + 7, 70000}};

struct RouteProblem {
  RoutingSizes s;
  const DropoutKey* key = nullptr;  // null: nothing is drawn
  bool sampled = false;
  int number = 0;
  Doubles logits;
  std::string text;

  Routed routed() const { return reference::route(s, logits, key, sampled, number); }
  Shape logits_shape() const { return {s.rows, s.experts}; }
};

RouteProblem problem(const RoutingSizes& s, const DropoutKey* key, bool sampled, int number) {
  RouteProblem p{s, key, sampled, number, {}, {}};
  constexpr double kClear = 1e-4;  // far more than logits and noise may be off by
  uint32_t seed = 1;
  do p.logits = normal(at(s.rows * s.experts), seed++, 1.5);
  while (p.routed().margin < kClear);
  p.text = str(" ", s.rows, " rows to ", s.top_k, " of ", s.experts, " with room for ", s.capacity,
               key == nullptr ? "" : str(" drawn as number ", number), sampled ? " sampled" : "");
  return p;
}

/// Room for all and for few, equal logits, one expert alone, more than a block of threads has, and second choices so
/// unlikely that their weight is less than what weights are divided by at least.
const std::vector<RouteProblem>& route_problems() {
  static const std::vector<RouteProblem> problems = [] {
    std::vector<RouteProblem> all;
    int number = 0;
    for (const RoutingSizes& s : {RoutingSizes{16, 4, 4, 1},
                                  {4, 2, 2, 1},
                                  {5, 1, 3, 1},
                                  {300, 3, 90, 1},
                                  {7, 64, 1, 1},
                                  {16, 4, 8, 2},
                                  {6, 2, 2, 2},
                                  {290, 5, 60, 2},
                                  {33, 17, 33, 2}}) {
      all.push_back(problem(s, nullptr, /*sampled=*/false, number));
      for (const DropoutKey& key : kKeys) all.push_back(problem(s, &key, /*sampled=*/false, ++number));
      if (s.top_k == 1) all.push_back(problem(s, &kKeys[0], /*sampled=*/true, ++number));
    }
    for (const int top_k : {1, 2})
      all.push_back({{3, 3, 2, top_k}, nullptr, false, 0, {1, 1, 1, 0, 2, 2, 3, 0, 3}, str(" equal logits, ", top_k)});
    all.push_back({{2, 3, 1, 2}, nullptr, false, 0, {10, -10, -12, 10, -12, -10}, " second choices alone"});
    return all;
  }();
  return problems;
}

Doubles tolerance_of(const Doubles& values, double eps, double least = 0) {
  Doubles tolerance;
  for (const double v : values) tolerance.push_back(std::isfinite(v) ? eps * kEps * std::abs(v) + least : 0);
  return tolerance;
}

OpCase route_case(const RouteProblem& p, bool balanced, const std::string& more) {
  Case c;
  const Routed r = p.routed();
  Doubles weights = reference::route_weights(p.s, p.logits, r.slots);
  for (size_t i = 0; i < weights.size(); ++i)  // what is not finite shows even where it was dropped
    if (std::isnan(reference::softmax_of_row(p.logits, static_cast<int64_t>(i) / p.s.top_k, p.s.experts)[0]))
      weights[i] = std::numeric_limits<double>::quiet_NaN();
  const double balance = reference::balance(p.s, p.logits, r.load);
  const ValueId logits = c.in(p.logits_shape(), p.logits),
                key = p.key == nullptr ? kNone : c.in(shape_of<DropoutKey>(), bytes_of(*p.key), DType::u8),
                slots = c.out({std::ssize(r.slots)}, r.slots, {}, DType::i32),
                sources = c.out({std::ssize(r.sources)}, r.sources, {}, DType::i32),
                to = c.out({std::ssize(weights)}, weights, tolerance_of(weights, 32)),
                load = c.out({p.s.experts}, r.load, tolerance_of(r.load, 2)),
                sum = balanced ? c.out({1}, {balance}, tolerance_of({balance}, 64)) : kNone;
  return c.of(Route{logits, key, slots, sources, to, load, sum, p.s.capacity, p.s.top_k, p.sampled,
                    /*balance_coefficient=*/0, p.number},
              p.text, more);
}

/// Rows to experts and back, of problems with few rows and with many.
struct RowsProblem {
  RoutingSizes s;
  int64_t columns;
  Routed r;
  Doubles weights;

  Shape rows() const { return {s.rows, columns}; }
  Shape of_expert() const { return {s.capacity, columns}; }
  Doubles of_expert(const Doubles& all, int64_t e) const {
    const auto size = s.capacity * columns;
    return {all.begin() + e * size, all.begin() + (e + 1) * size};
  }
  size_t experts_elements() const { return at(s.experts * s.capacity * columns); }
  /// `all` with one expert's rows in the place of what is there.
  std::vector<Complex> with(const Doubles& all, int64_t e, const std::vector<Complex>& own) const {
    std::vector<Complex> z = complex(all);
    std::ranges::copy(own, z.begin() + e * s.capacity * columns);
    return z;
  }
  std::string text() const {
    return str(" ", s.rows, "x", columns, " to ", s.top_k, " of ", s.experts, " with room for ", s.capacity);
  }
};

std::vector<RowsProblem> rows_problems() {
  std::vector<RowsProblem> all;
  for (const auto& [s, columns] : {std::pair{RoutingSizes{16, 4, 4, 1}, 84},
                                   {{4, 2, 2, 1}, 7},
                                   {{5, 1, 3, 1}, 16},
                                   {{7, 64, 1, 1}, 3},
                                   {{16, 4, 8, 2}, 84},
                                   {{6, 2, 2, 2}, 300},
                                   {{33, 17, 33, 2}, 5}}) {
    const RouteProblem p = problem(s, nullptr, /*sampled=*/false, 0);
    Routed r = p.routed();
    Doubles weights = reference::route_weights(s, p.logits, r.slots);
    for (double& w : weights) w = static_cast<float>(w);
    all.push_back({s, columns, std::move(r), std::move(weights)});
  }
  return all;
}

ValueId integers(Case& c, const Doubles& values) { return c.in({std::ssize(values)}, values, DType::i32); }

/// Rows and scores of two mixed values.
const std::vector<Shape>& mix_shapes() {
  static const std::vector<Shape> shapes{{16, 84}, {3, 7}, {1, 1}, {5, 300}};
  return shapes;
}

}  // namespace

void add_cases(Cases& cases, Of<Route>) {
  for (const RouteProblem& p : route_problems()) cases.push_back(route_case(p, p.key != nullptr, ""));
  for (RouteProblem p : {problem({6, 3, 1, 1}, &kKeys[0], false, 3), problem({6, 3, 2, 2}, nullptr, false, 3)}) {
    p.logits[4] = std::numeric_limits<double>::quiet_NaN();
    cases.push_back(route_case(p, /*balanced=*/true, " with NaN"));
  }
}

void add_cases(Cases& cases, Of<RouteGrad>) {
  for (const RouteProblem& p : route_problems())
    for (const double scale : {1.0, 1024.0}) {
      Case c;
      const Routed r = p.routed();
      Doubles load = r.load;
      for (double& v : load) v = static_cast<float>(v);
      const Doubles d = normal(p.s.choices(), 7);
      const double coefficient = 0.25, predivide = scale == 1 ? 1 : 6;
      const double factor = coefficient * scale / predivide;
      const Doubles expected = reference::route_gradient(p.s, p.logits, r.slots, load, d, factor);
      Doubles tolerance;
      for (int64_t row = 0; row < p.s.rows; ++row) {
        const Doubles probability = reference::softmax_of_row(p.logits, row, p.s.experts);
        double largest = 0, of_choices = 0;
        for (const double v : load) largest = std::max(largest, factor * v * static_cast<double>(p.s.experts));
        for (int i = 0; i < p.s.top_k; ++i) of_choices += std::abs(d[at(row * p.s.top_k + i)]);
        double sum = 1;  // by which the gradient of weights that are a share is divided
        if (p.s.top_k == 2) {
          sum = 0;
          for (int i = 0; i < 2; ++i)
            if (const double slot = r.slots[at(row * 2 + i)]; slot >= 0)
              sum += probability[at(static_cast<int64_t>(slot) / p.s.capacity)];
          sum = std::max(sum, kEps);
        }
        for (const double v : probability) tolerance.push_back(64 * kEps * v * (largest + of_choices / sum));
      }
      const ValueId logits = c.in(p.logits_shape(), p.logits), slots = integers(c, r.slots),
                    loads = c.in({p.s.experts}, load), dweights = c.in({std::ssize(d)}, d),
                    dlogits = c.out(p.logits_shape(), expected, tolerance),
                    scaled = scale == 1 ? kNone
                                        : c.in(shape_of<LossScaleState>(), bytes_of(LossScaleState{.scale = scale}),
                                               DType::u8);
      if (scale == 1)
        c.gradient(dlogits, p.logits, [=, s = p.s](const auto& v) {
          return weighted(d, reference::route_weights(s, v, r.slots)) + factor * reference::balance(s, v, load);
        });
      cases.push_back(c.of(
          RouteGrad{logits, slots, loads, dweights, dlogits, p.s.capacity, p.s.top_k, coefficient, scaled, predivide},
          p.text, scale == 1 ? "" : " scaled"));
    }
}

/// Without weights, rows on their way; with weights, the gradient of what comes back.
void add_cases(Cases& cases, Of<Dispatch>, DType type) {
  for (const RowsProblem& p : rows_problems())
    for (const bool weighs : {false, true}) {
      Case c(type);
      const Doubles x = normal(type, at(p.s.rows * p.columns), 1), from = normal(p.experts_elements(), 2);
      const Doubles ones(p.s.choices(), 1.0);
      const Doubles to = reference::dispatch(p.s, p.columns, x, p.r.sources, weighs ? p.weights : ones);
      const ValueId rows = c.wide_in(p.rows(), x), sources = integers(c, p.r.sources),
                    weights = weighs ? c.in({std::ssize(p.weights)}, p.weights) : kNone;
      Ids ids;
      for (int64_t e = 0; e < p.s.experts; ++e) {
        const Doubles own = p.of_expert(to, e);
        ids.push_back(c.wide_out(p.of_expert(), own, tolerance_of(own, weighs ? 1 : 0)));
        if (weighs && e < 3)
          c.gradient(ids.back(), p.of_expert(from, e), [=](const auto& v) {
            return weighted(x, reference::combine(p.s, p.columns, p.with(from, e, v), p.r.slots, p.weights));
          });
      }
      cases.push_back(c.of(Dispatch{rows, sources, weights, ids, p.s.top_k}, p.text(), weighs ? " weighted" : ""));
    }
}

/// With weights, rows on their way back; without weights, the gradient of what was sent.
void add_cases(Cases& cases, Of<Combine>, DType type) {
  for (const RowsProblem& p : rows_problems())
    for (const bool weighs : {false, true})
      for (const bool broken : {false, true}) {
        if (broken && !weighs) continue;
        Case c(type);
        Doubles weights = weighs ? p.weights : Doubles(p.s.choices(), 1.0);
        const Doubles from = normal(type, p.experts_elements(), 1), x = normal(at(p.s.rows * p.columns), 2);
        Doubles expected = reference::combine(p.s, p.columns, from, p.r.slots, weights), absolute = from;
        for (double& v : absolute) v = std::abs(v);
        Doubles tolerance = reference::combine(p.s, p.columns, absolute, p.r.slots, weights);
        for (double& v : tolerance) v *= 2 * kEps;
        if (broken) {  // of a row that was dropped, if there is one
          const auto choice = static_cast<size_t>(std::ranges::min_element(p.r.slots) - p.r.slots.begin());
          weights[choice] = std::numeric_limits<double>::quiet_NaN();
          const auto row = static_cast<int64_t>(choice) / p.s.top_k * p.columns;
          std::fill_n(expected.begin() + row, p.columns, weights[choice]);
        }
        Ids ids;
        for (int64_t e = 0; e < p.s.experts; ++e) ids.push_back(c.wide_in(p.of_expert(), p.of_expert(from, e)));
        const ValueId slots = integers(c, p.r.slots), of = weighs ? c.in({std::ssize(weights)}, weights) : kNone,
                      y = c.wide_out(p.rows(), expected, tolerance);
        if (!weighs)
          c.gradient(y, x, [=](const auto& v) {
            return weighted(from, reference::dispatch(p.s, p.columns, v, p.r.sources, weights));
          });
        cases.push_back(c.of(Combine{ids, slots, of, y, p.s.top_k}, p.text(), weighs ? " weighted" : "",
                             broken ? " with NaN" : ""));
      }
}

void add_cases(Cases& cases, Of<CombineGradWeights>, DType type) {
  for (const RowsProblem& p : rows_problems()) {
    Case c(type);
    const Doubles from = normal(type, p.experts_elements(), 1), d = normal(type, at(p.s.rows * p.columns), 2);
    const Doubles expected = reference::combine_weights_gradient(p.s, p.columns, from, p.r.slots, d);
    const Doubles sums = reference::combine_weights_gradient(p.s, p.columns, squares(from), p.r.slots, squares(d));
    Ids ids;
    for (int64_t e = 0; e < p.s.experts; ++e) ids.push_back(c.wide_in(p.of_expert(), p.of_expert(from, e)));
    const ValueId slots = integers(c, p.r.slots), dy = c.wide_in(p.rows(), d),
                  dweights = c.out({std::ssize(expected)}, expected, rounding(sums, p.columns));
    c.gradient(dweights, p.weights,
               [=](const auto& v) { return weighted(d, reference::combine(p.s, p.columns, from, p.r.slots, v)); });
    cases.push_back(c.of(CombineGradWeights{ids, slots, dy, dweights, p.s.top_k}, p.text()));
  }
}

void add_cases(Cases& cases, Of<Jitter>, DType type) {
  int number = 0;
  for (const Shape& shape : {Shape{16, 84}, Shape{2, 5, 7}, Shape{1}, Shape{129}})
    for (const DropoutKey& key : kKeys) {
      Case c(type);
      const Doubles values = normal(type, at(shape.numel()), 1);
      Doubles expected, tolerance;
      for (int64_t i = 0; i < shape.numel(); ++i) {
        const int64_t element = i / shape.columns() * shape.stride() + i % shape.columns();  // in memory
        expected.push_back(values[at(i)] * static_cast<double>(jitter_factor(key, number, element)));
        tolerance.push_back(2 * kEps * std::abs(values[at(i)]));
      }
      const ValueId x = c.wide_in(shape, values), drawn = c.in(shape_of<DropoutKey>(), bytes_of(key), DType::u8),
                    y = c.wide_out(shape, expected, tolerance);
      cases.push_back(c.of(Jitter{x, drawn, y, number}, " ", to_string(shape), " number ", number));
      ++number;
    }
}

void add_cases(Cases& cases, Of<SoftmaxMix>, DType type) {
  for (const Shape& shape : mix_shapes()) {
    Case c(type);
    const size_t n = at(shape.numel());
    const Doubles a = normal(type, n, 1), b = normal(type, n, 2), scores = normal(at(2 * shape[0]), 3, 2);
    Doubles tolerance;
    for (size_t i = 0; i < n; ++i) tolerance.push_back(16 * kEps * (std::abs(a[i]) + std::abs(b[i])));
    const ValueId first = c.wide_in(shape, a), second = c.wide_in(shape, b), z = c.in({shape[0], 2}, scores),
                  y = c.wide_out(shape, reference::softmax_mix(shape[0], a, b, scores), tolerance);
    cases.push_back(c.of(SoftmaxMix{first, second, z, y}, " ", to_string(shape)));
  }
}

void add_cases(Cases& cases, Of<SoftmaxMixGrad>, DType type) {
  for (const Shape& shape : mix_shapes()) {
    Case c(type);
    const size_t n = at(shape.numel()), columns = at(shape[1]);
    const Doubles a = normal(type, n, 1), b = normal(type, n, 2), scores = normal(at(2 * shape[0]), 3, 2),
                  d = normal(type, n, 4);
    Doubles da, db, dscores, tolerance;
    for (int64_t row = 0; row < shape[0]; ++row) {
      const Doubles share = reference::softmax_of_row(scores, row, 2);
      double sum = 0, sum_of_squares = 0;
      for (size_t i = at(row) * columns; i < (at(row) + 1) * columns; ++i) {
        da.push_back(share[0] * d[i]);
        db.push_back(share[1] * d[i]);
        sum += d[i] * (a[i] - b[i]);
        sum_of_squares += d[i] * d[i] * (a[i] * a[i] + b[i] * b[i]);
      }
      const double slope = share[0] * share[1];
      const double error = slope * (rounding({sum_of_squares}, shape[1])[0] + 16 * kEps * std::abs(sum));
      for (const int sign : {1, -1}) {
        dscores.push_back(sign * slope * sum);
        tolerance.push_back(error);
      }
    }
    const ValueId first = c.wide_in(shape, a), second = c.wide_in(shape, b), z = c.in({shape[0], 2}, scores),
                  dy = c.wide_in(shape, d), to_a = c.wide_out(shape, da, tolerance_of(da, 16)),
                  to_b = c.wide_out(shape, db, tolerance_of(db, 16)),
                  to_scores = c.out({shape[0], 2}, dscores, tolerance);
    const int64_t rows = shape[0];
    c.gradient(to_a, a, [=](const auto& v) { return weighted(d, reference::softmax_mix(rows, v, b, scores)); });
    c.gradient(to_b, b, [=](const auto& v) { return weighted(d, reference::softmax_mix(rows, a, v, scores)); });
    c.gradient(to_scores, scores, [=](const auto& v) { return weighted(d, reference::softmax_mix(rows, a, b, v)); });
    cases.push_back(c.of(SoftmaxMixGrad{first, second, z, dy, to_a, to_b, to_scores}, " ", to_string(shape)));
  }
}

}  // namespace ct::cases
