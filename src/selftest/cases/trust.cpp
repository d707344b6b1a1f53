// What LARS and LAMB compute of whole tensors.
#include <cmath>
#include <limits>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/cases/update_problem.h"
#include "selftest/reference/optimizer.h"

namespace ct::cases {
void add_cases(Cases& cases, Of<LambMoments>) {
  for (UpdateProblem p : update_problems()) {
    if (p.copy) continue;  // none is written
    for (const double first_decay : {0.0, 0.1}) {
      Case c;
      const double beta1 = 0.9, beta2 = 0.999;
      p.scalars.coefficients = {beta1, beta2, 1};
      LambMoments op{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8), .eps = 1e-6};
      // Sums of two slices, with a place between and behind them that is left alone.
      constexpr int64_t kLength = 4096;
      const auto numbers = slice_sizes(p);
      const int64_t chunks = (numbers[0] + kLength - 1) / kLength;
      Doubles weights_before(at(chunks + 3), 0.5), updates_before(at(chunks + 3), 0.25);
      Doubles weights = weights_before, updates = updates_before, weight_tolerance(weights.size()),
              update_tolerance(weights.size());
      for (const int64_t numel : numbers) {
        const bool first = op.slices.empty();
        const double decay = first ? first_decay : 0.2;
        const auto n = at(numel);
        const Doubles g = normal(n, 1), params = normal(n, 2), m = normal(n, 3);
        Doubles v = squares(normal(n, 4, 0.1));
        for (double& x : v) x = static_cast<float>(x + 0.01);
        Doubles m_after = m, v_after = v, m_tolerance(n), v_tolerance(n);
        LambMoments::Slice slice{.weight_decay = decay, .chunks = {}};
        for (int64_t begin = 0; begin < numel; begin += kLength)
          slice.chunks.push_back({{begin, std::min(begin + kLength, numel)}, first ? begin / kLength : chunks + 1});
        const optim::Lamb lamb{.betas = {beta1, beta2}, .eps = op.eps};
        for (const SquareSums::Chunk& chunk : slice.chunks) {
          if (p.skip) break;
          const size_t sum = at(chunk.sum);
          weights[sum] = updates[sum] = 0;
          for (int64_t k = chunk.range.begin; k < chunk.range.end; ++k) {
            const size_t i = at(k);
            const double scaled = g[i] * p.scalars.grad_scale;
            rules::Lamb::States<double> e{m[i], v[i]};
            reference::moments(lamb.betas, scaled, e);
            const double u = reference::lamb_update(lamb, decay, params[i], e);
            const double size = std::abs(m[i]) + std::abs(scaled);
            m_tolerance[i] = 4 * kEps * size;
            v_tolerance[i] = 6 * kEps * (v[i] + scaled * scaled);
            m_after[i] = e.exp_avg, v_after[i] = e.exp_avg_sq;
            weights[sum] += params[i] * params[i];
            updates[sum] += u * u;
            // Sums are in f64; the update comes rounded.
            const double of_u = 16 * kEps * (size / std::sqrt(e.exp_avg_sq) + decay * std::abs(params[i]));
            update_tolerance[sum] += 2 * std::abs(u) * of_u + of_u * of_u;
          }
          weight_tolerance[sum] = 1e-12 * weights[sum];
        }
        slice.masters = c.in({numel}, params);
        slice.grads = c.in({numel}, g);
        slice.exp_avg = c.in_out({numel}, m, m_after, m_tolerance);
        slice.exp_avg_sq = c.in_out({numel}, v, v_after, v_tolerance);
        op.slices.push_back(std::move(slice));
      }
      const Shape sums{chunks + 3};
      op.weight_sums = c.in_out(sums, weights_before, weights, weight_tolerance, DType::f64);
      op.update_sums = c.in_out(sums, updates_before, updates, update_tolerance, DType::f64);
      cases.push_back(c.of(std::move(op), p.text(), " decay ", first_decay));
    }
  }
}

void add_cases(Cases& cases, Of<TrustRatios>) {
  const double inf = std::numeric_limits<double>::infinity();
  struct Kind {
    const char* name;
    double coefficient, eps, least, most;
    bool of_gradients, by_rate;
  };
  for (const Kind& k : {Kind{"LARS", 0.01, 1e-8, 0, inf, true, false},
                        {"LARS clipped", 0.5, 1e-8, 0, 1, true, true},
                        {"LAMB", 1, 0, 0.01, 10, false, false}})
    for (const bool skip : {false, true}) {
      Case c;
      StepScalars scalars{.grad_scale = 0.25, .lr = 0.5};
      scalars.skip = skip;
      // Norms 3 and 5 (of two and three sums), then tensors of which one or both are 0, too much, too little, one that
      // does not adapt, and one without any sum.
      const Doubles weight_sums{4, 5, 9, 8, 8, 0, 1, 0, 1e6, 1e-6, 4},
          update_sums{1, 3, 9, 16, 0, 1, 0, 0, 1e-6, 1e6, 4};
      const std::vector<Range> chunks{{0, 2}, {2, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 9}, {9, 10}, {10, 11}, {11, 11}};
      TrustRatios op{.scalars = c.in(kScalarsShape, bytes_of(scalars), DType::u8),
                     .weight_sums = c.in({static_cast<int64_t>(weight_sums.size())}, weight_sums, DType::f64),
                     .update_sums = c.in({static_cast<int64_t>(update_sums.size())}, update_sums, DType::f64),
                     .coefficient = k.coefficient,
                     .eps = k.eps,
                     .least = k.least,
                     .most = k.most,
                     .of_gradients = k.of_gradients,
                     .by_rate = k.by_rate};
      Doubles before, after, tolerance;
      for (const Range& range : chunks) {
        TrustRatios::Tensor tensor{
            .chunks = range, .weight_decay = k.of_gradients ? 0.01 : 0, .lr_scale = 0.5, .adapts = range.begin != 10};
        double weight = 0, update = 0;
        for (int64_t i = range.begin; i < range.end; ++i) weight += weight_sums[at(i)], update += update_sums[at(i)];
        weight = std::sqrt(weight), update = std::sqrt(update) * (k.of_gradients ? scalars.grad_scale : 1);
        const double rate = k.by_rate ? scalars.lr * tensor.lr_scale : 1;  // before the limits: theirs times it
        const double ratio = reference::trust<double>(
            {k.coefficient / rate, tensor.weight_decay, k.eps, k.least, k.most}, weight, update);
        before.push_back(0.125);
        after.push_back(skip ? 0.125 : tensor.adapts ? ratio : 1);
        tolerance.push_back(kEps * after.back());
        op.tensors.push_back(tensor);
      }
      op.ratios = c.in_out({static_cast<int64_t>(before.size())}, before, after, tolerance);
      cases.push_back(c.of(std::move(op), " ", k.name, skip ? " skipped" : ""));
    }
}

}  // namespace ct::cases
