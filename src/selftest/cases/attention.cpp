#include "selftest/reference/attention.h"

#include <algorithm>
#include <limits>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {
namespace {

using reference::AttentionSizes;

/// What rounding may do to a sum of `terms` products, relative to the sum of what they are without signs.
double of_sum(int64_t terms) { return (4 + 2 * std::sqrt(static_cast<double>(terms))) * kEps; }

struct AttentionProblem {
  AttentionSizes s;
  bool learnt;  // temperature
  Doubles qkv, dy;
  double temperature = 0, scale = 0;

  AttentionProblem(DType type, AttentionSizes sizes, bool learnt_) : s(sizes), learnt(learnt_) {
    const size_t n = s.in_y(s.n, 0, 0, 0);
    qkv = normal(type, 3 * n, 1);
    dy = normal(type, n, 2);
    scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.width)));
    if (!learnt) return;
    temperature = static_cast<float>(std::log(scale) + 0.25);
    scale = std::exp(temperature);
  }
  Shape qkv_shape() const { return {s.n, s.tokens, 3 * s.heads * s.width}; }
  Shape y_shape() const { return {s.n, s.tokens, s.heads * s.width}; }
  Shape rows_shape() const { return {s.n * s.heads * s.tokens}; }
  std::string text() const {
    return str(" ", s.n, "x", s.tokens, " tokens, ", s.heads, " heads of ", s.width, s.mask_diagonal ? ", masked" : "",
               learnt ? ", temperature" : "");
  }

  /// What rounding may do to a weight, relative to it, by the largest error of a logit in its row.
  struct RowError {
    Doubles logits;   // by pair
    Doubles weights;  // by row
  };
  RowError errors(const reference::AttentionWeights<double>& w, int64_t n, int64_t h) const {
    RowError e{Doubles(w.p.size()), Doubles(at(s.tokens))};
    for (int64_t i = 0; i < s.tokens; ++i)
      for (int64_t j = 0; j < s.tokens; ++j) {
        double squares = 0;
        for (int64_t d = 0; d < s.width; ++d)
          squares += std::pow(qkv[s.in_qkv(s.query, n, h, i, d)] * qkv[s.in_qkv(s.key, n, h, j, d)], 2);
        double& error = e.logits[s.pair(i, j)];
        error = of_sum(s.width) * scale * std::sqrt(squares) + 4 * kEps * std::abs(w.logits[s.pair(i, j)]);
        e.weights[at(i)] = std::max(e.weights[at(i)], 2 * error + 8 * kEps);
      }
    return e;
  }
};

std::vector<AttentionProblem> attention_problems(DType type) {
  std::vector<AttentionProblem> problems;
  for (const bool learnt : {false, true}) {
    problems.emplace_back(type, AttentionSizes{1, 65, 2, 64, learnt}, learnt);   // the transformer on CIFAR-10
    problems.emplace_back(type, AttentionSizes{2, 17, 3, 24, !learnt}, learnt);  // rows with pads
  }
  for (const AttentionSizes& s :
       {AttentionSizes{1, 1, 1, 5, false}, AttentionSizes{3, 2, 1, 1, true}, AttentionSizes{1, 33, 1, 72, false},
        AttentionSizes{1, 400, 1, 16, true}, AttentionSizes{1, 9, 1, 129, false}, AttentionSizes{1, 5, 1, 260, true},
        AttentionSizes{1, 65, 1, 32, true}, AttentionSizes{1, 90, 1, 20, true}})
    problems.emplace_back(type, s, /*learnt=*/true);
  return problems;
}

}  // namespace

void add_cases(Cases& cases, Of<Attention>, DType type) {
  for (const AttentionProblem& p : attention_problems(type)) {
    const AttentionSizes& s = p.s;
    const auto expected = reference::attention(s, p.qkv, p.scale);
    Doubles tolerance(expected.y.size()), log_tolerance;
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t h = 0; h < s.heads; ++h) {
        const auto w = reference::attention_weights(s, p.qkv, p.scale, n, h);
        const auto errors = p.errors(w, n, h);
        for (int64_t i = 0; i < s.tokens; ++i) {
          const double most = *std::max_element(w.p.begin() + i * s.tokens, w.p.begin() + (i + 1) * s.tokens);
          for (int64_t j = 0; j < s.tokens; ++j) {
            // Tensor cores take weights of the type, of which the largest is 1 before the division by their sum.
            const double weight = w.p[s.pair(i, j)], of_rounding = rounding_to(type, weight / most) * most;
            for (int64_t d = 0; d < s.width; ++d)
              tolerance[s.in_y(n, h, i, d)] += ((2 * errors.weights[at(i)] + of_sum(s.tokens)) * weight + of_rounding) *
                                               std::abs(p.qkv[s.in_qkv(s.value, n, h, j, d)]);
          }
          log_tolerance.push_back(errors.weights[at(i)] + of_sum(s.tokens) + 4 * kEps * std::abs(w.log_sum_exp[at(i)]));
        }
      }
    for (const bool train : {true, false}) {
      Case c(type);
      const ValueId qkv = c.wide_in(p.qkv_shape(), p.qkv);
      const ValueId temperature = p.learnt ? c.in({1}, {p.temperature}) : kNone;
      const ValueId y = c.wide_out(p.y_shape(), expected.y, tolerance);
      const ValueId log_sum_exp = train ? c.out(p.rows_shape(), expected.log_sum_exp, log_tolerance) : kNone;
      cases.push_back(c.of(Attention{qkv, temperature, y, log_sum_exp, static_cast<int>(s.heads),
                                     p.learnt ? 0 : static_cast<float>(p.scale), s.mask_diagonal},
                           p.text(), train ? "" : ", evaluation"));
    }
  }
  // A key that is not a number shows in all that meet it.
  AttentionProblem p(type, {1, 40, 1, 4, false}, /*learnt_=*/false);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  p.qkv[p.s.in_qkv(p.s.key, 0, 0, 35, 0)] = nan;
  Case c(type);
  const ValueId qkv = c.wide_in(p.qkv_shape(), p.qkv), y = c.exact_out(p.y_shape(), Doubles(p.dy.size(), nan));
  cases.push_back(c.of(Attention{qkv, kNone, y, kNone, 1, static_cast<float>(p.scale), false}, p.text(), " with NaN"));
}

void add_cases(Cases& cases, Of<AttentionGrad>, DType type) {
  for (const AttentionProblem& p : attention_problems(type)) {
    const AttentionSizes& s = p.s;
    const auto expected = reference::attention_gradients(s, p.qkv, p.scale, p.dy);
    Doubles tolerance(p.qkv.size()), log_sum_exp;
    double of_temperature = 0;
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t h = 0; h < s.heads; ++h) {
        const auto w = reference::attention_weights(s, p.qkv, p.scale, n, h);
        const auto errors = p.errors(w, n, h);
        const auto g = reference::attention_pairs(s, p.qkv, w, p.dy, n, h);
        log_sum_exp.insert(log_sum_exp.end(), w.log_sum_exp.begin(), w.log_sum_exp.end());
        for (int64_t i = 0; i < s.tokens; ++i) {
          // The weights come of the rounded log_sum_exp.
          const double of_weight = errors.weights[at(i)] + 2 * kEps * std::abs(w.log_sum_exp[at(i)]);
          double mean = 0, of_mean = 0;
          Doubles of_dp(at(s.tokens));
          for (int64_t j = 0; j < s.tokens; ++j) {
            const size_t ij = s.pair(i, j);
            double squares = 0;
            for (int64_t d = 0; d < s.width; ++d)
              squares += std::pow(p.dy[s.in_y(n, h, i, d)] * p.qkv[s.in_qkv(s.value, n, h, j, d)], 2);
            of_dp[at(j)] = of_sum(s.width) * std::sqrt(squares);
            mean += w.p[ij] * g.dp[ij];
            of_mean += w.p[ij] * (std::abs(g.dp[ij]) * (of_weight + of_sum(s.tokens)) + of_dp[at(j)]);
          }
          for (int64_t j = 0; j < s.tokens; ++j) {
            const size_t ij = s.pair(i, j);
            const double sizes = std::abs(g.dp[ij]) + std::abs(mean);
            const double of_logit = w.p[ij] * (sizes * (of_weight + 8 * kEps) + of_dp[at(j)] + of_mean) +
                                    std::abs(g.dlogits[ij]) * of_sum(s.tokens);
            of_temperature += of_logit * std::abs(w.logits[ij]) + std::abs(g.dlogits[ij]) * errors.logits[ij];
            // Tensor cores take weights and logits' gradients of the type.
            const double of_product = of_logit + rounding_to(type, std::abs(g.dlogits[ij]) + of_logit);
            const double of_value = w.p[ij] * (of_weight + of_sum(s.tokens)) + rounding_to(type, w.p[ij]);
            for (int64_t d = 0; d < s.width; ++d) {
              const size_t q = s.in_qkv(s.query, n, h, i, d), k = s.in_qkv(s.key, n, h, j, d);
              tolerance[q] += p.scale * of_product * std::abs(p.qkv[k]);
              tolerance[k] += p.scale * of_product * std::abs(p.qkv[q]);
              tolerance[s.in_qkv(s.value, n, h, j, d)] += of_value * std::abs(p.dy[s.in_y(n, h, i, d)]);
            }
          }
        }
      }
    Case c(type);
    const ValueId qkv = c.wide_in(p.qkv_shape(), p.qkv);
    const ValueId temperature = p.learnt ? c.in({1}, {p.temperature}) : kNone;
    const ValueId log_sum = c.in(p.rows_shape(), log_sum_exp), dy = c.wide_in(p.y_shape(), p.dy);
    const ValueId dqkv = c.wide_out(p.qkv_shape(), expected.dqkv, tolerance);
    const ValueId dtemperature = p.learnt ? c.out({1}, {expected.dtemperature}, {of_temperature}) : kNone;
    if (s.tokens <= 65) {
      c.gradient(dqkv, p.qkv,
                 [p](const auto& x) { return weighted(p.dy, reference::attention(p.s, x, Complex(p.scale)).y); });
      if (p.learnt)
        c.gradient(dtemperature, {p.temperature}, [p](const auto& t) {
          return weighted(p.dy, reference::attention(p.s, complex(p.qkv), std::exp(t[0])).y);
        });
    }
    cases.push_back(c.of(AttentionGrad{qkv, temperature, log_sum, dy, dqkv, dtemperature, static_cast<int>(s.heads),
                                       p.learnt ? 0 : static_cast<float>(p.scale), s.mask_diagonal},
                         p.text()));
  }
}

namespace {

struct SequencePoolProblem {
  int64_t n, tokens, channels;
  Doubles x, score, dy;
  SequencePoolProblem(DType type, const Shape& shape) : n(shape[0]), tokens(shape[1]), channels(shape[2]) {
    x = normal(type, at(shape.numel()), 1);
    score = normal(type, at(n * tokens), 2, 2);
    dy = normal(type, at(n * channels), 3);
  }
  Shape shape() const { return {n, tokens, channels}; }
  Shape score_shape() const { return {n, tokens, 1}; }
  template <class T>
  std::vector<T> forward(const std::vector<T>& x_, const std::vector<T>& score_) const {
    return reference::sequence_pool(n, tokens, channels, x_, score_);
  }
  /// What rounding may do to a weight, relative to it.
  double of_weight() const {
    double most = 0;
    for (double s : score) most = std::max(most, std::abs(s));
    return 4 * kEps * most + of_sum(tokens);
  }
};

std::vector<SequencePoolProblem> sequence_pool_problems(DType type) {
  std::vector<SequencePoolProblem> problems;
  for (const Shape& shape : {Shape{2, 64, 48}, Shape{3, 17, 5}, Shape{1, 1, 1}, Shape{1, 100, 130}})
    problems.emplace_back(type, shape);
  return problems;
}

Doubles absolute(Doubles v) {
  for (double& x : v) x = std::abs(x);
  return v;
}

}  // namespace

void add_cases(Cases& cases, Of<SequencePool>, DType type) {
  for (const SequencePoolProblem& p : sequence_pool_problems(type)) {
    Case c(type);
    Doubles tolerance = p.forward(absolute(p.x), p.score);
    for (double& t : tolerance) t *= p.of_weight() + of_sum(p.tokens);
    const ValueId x = c.wide_in(p.shape(), p.x), score = c.wide_in(p.score_shape(), p.score);
    const ValueId y = c.wide_out({p.n, p.channels}, p.forward(p.x, p.score), tolerance);
    cases.push_back(c.of(SequencePool{x, score, y}, " ", to_string(p.shape())));
  }
}

void add_cases(Cases& cases, Of<SequencePoolGrad>, DType type) {
  for (const SequencePoolProblem& p : sequence_pool_problems(type)) {
    Case c(type);
    const auto g = reference::sequence_pool_gradients(p.n, p.tokens, p.channels, p.x, p.score, p.dy);
    Doubles of_dx = absolute(g.dx), of_dscore;
    for (double& t : of_dx) t *= p.of_weight() + 2 * kEps;
    for (int64_t i = 0; i < p.n; ++i) {
      const Doubles weights = reference::softmax(p.score.data() + i * p.tokens, p.tokens);
      Doubles sizes(at(p.tokens));  // sums of products without their signs
      double mean = 0;
      for (int64_t t = 0; t < p.tokens; ++t) {
        for (int64_t ch = 0; ch < p.channels; ++ch)
          sizes[at(t)] += std::abs(p.x[at((i * p.tokens + t) * p.channels + ch)] * p.dy[at(i * p.channels + ch)]);
        mean += weights[at(t)] * sizes[at(t)];
      }
      for (int64_t t = 0; t < p.tokens; ++t)
        of_dscore.push_back(weights[at(t)] * (sizes[at(t)] + mean) *
                            (2 * p.of_weight() + of_sum(p.channels) + of_sum(p.tokens)));
    }
    const ValueId x = c.wide_in(p.shape(), p.x), score = c.wide_in(p.score_shape(), p.score);
    const ValueId dy = c.wide_in({p.n, p.channels}, p.dy);
    const ValueId dx = c.wide_out(p.shape(), g.dx, of_dx), dscore = c.wide_out(p.score_shape(), g.dscore, of_dscore);
    c.gradient(dx, p.x, [p](const auto& v) { return weighted(p.dy, p.forward(v, complex(p.score))); });
    c.gradient(dscore, p.score, [p](const auto& v) { return weighted(p.dy, p.forward(complex(p.x), v)); });
    cases.push_back(c.of(SequencePoolGrad{x, score, dy, dx, dscore}, " ", to_string(p.shape())));
  }
}

}  // namespace ct::cases
