#include "selftest/reference/optimizer.h"

#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/cases/update_problem.h"

namespace ct::cases {

void add_cases(Cases& cases, Of<Blend>) {
  for (const UpdateProblem& p : update_problems())
    for (const int64_t leaves : {1, 6}) {
      if (p.copy.value_or(DType::f32) != DType::f32) continue;  // statistics are vectors: f32
      Case c;
      Blend op{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8), .micro_batches = leaves};
      for (const int64_t numel : slice_sizes(p)) {
        const double momentum = op.slices.empty() ? 0.1 : 0.3;
        const auto n = at(numel);
        const Doubles running = normal(n, 1), sums = normal(n, 2);
        Doubles after = running, tolerance(n);
        for (size_t i = 0; i < n && !p.skip; ++i) {
          after[i] += momentum * (sums[i] / static_cast<double>(leaves) - running[i]);
          tolerance[i] = 2 * kEps * (std::abs(running[i]) + std::abs(sums[i]));
        }
        op.slices.push_back({.masters = c.in_out({numel}, running, after, tolerance),
                             .sums = c.in({numel}, sums),
                             .copy = p.add_copy(c, after, tolerance),
                             .momentum = momentum});
      }
      cases.push_back(c.of(std::move(op), p.text(), " of ", leaves, " micro-batches"));
    }
}

void add_cases(Cases& cases, Of<Ema>) {
  for (UpdateProblem p : update_problems())
    for (const int64_t start : {0, 7, 8}) {  // behind it, and at its last step
      if (p.copy) continue;                  // an average has none
      Case c;
      p.scalars.applied = 8;
      Ema op{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8), .decay = 0.99, .start = start};
      for (const int64_t numel : slice_sizes(p)) {
        const auto n = at(numel);
        const Doubles params = normal(n, 1), average = normal(n, 2);
        Doubles after = average, tolerance(n);
        for (size_t i = 0; i < n && !p.skip; ++i) {
          const bool copies = start == 8;
          after[i] = copies ? params[i] : reference::ema(op.decay, average[i], params[i]);
          // Of the difference, of 1 - decay, and of the sum.
          if (!copies)
            tolerance[i] = kEps * ((1 - op.decay) * (std::abs(params[i]) + std::abs(average[i])) + std::abs(after[i]));
        }
        op.slices.push_back(
            {.masters = c.in({numel}, params), .average = c.in_out({numel}, average, after, tolerance)});
      }
      cases.push_back(c.of(std::move(op), p.text(), " from step ", start));
    }
}

void add_cases(Cases& cases, Of<Adam>) {
  for (UpdateProblem p : update_problems())
    for (const AdamMode mode : {AdamMode::decoupled, AdamMode::l2})
      for (const double first_decay : {0.0, 0.1})
        for (const int step : {1, 30}) {
          Case c;
          const double beta1 = 0.8, beta2 = 0.999;
          const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
          p.scalars.coefficients = {beta1, beta2, correction1, correction2};
          Adam op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}, /*eps=*/1e-8, mode};
          for (const int64_t numel : slice_sizes(p)) {
            const double decay = op.slices.empty() ? first_decay : 0.2;
            const float lr_scale = op.slices.empty() ? 1 : 0.3f;
            const auto n = at(numel);
            const Doubles g = normal(n, 1), params = normal(n, 2), zeros(n);
            const Doubles m = step == 1 ? zeros : normal(n, 3), v = step == 1 ? zeros : squares(normal(n, 4, 0.1));
            Doubles v32 = v;
            for (double& x : v32) x = static_cast<float>(x);
            Doubles p_after = params, m_after = m, v_after = v32, p_tolerance(n), m_tolerance(n), v_tolerance(n);
            const reference::AdamOptions options{p.scalars.lr * lr_scale,    beta1, beta2, 1e-8, decay,
                                                 mode == AdamMode::decoupled};
            for (size_t i = 0; i < n && !p.skip; ++i) {
              const double scaled = g[i] * p.scalars.grad_scale;
              const auto e = reference::adam(options, {params[i], m[i], v32[i]}, scaled, correction1, correction2);
              // A handful of roundings of each term; the update inherits those of m, v and of its quotient.
              const double size = std::abs(scaled) + decay * std::abs(params[i]);
              const double update =
                  options.lr * (std::abs(m[i]) + size) / correction1 / (std::sqrt(e.v / correction2) + 1e-8);
              p_tolerance[i] = kEps * (std::abs(params[i]) + 12 * update + decay * std::abs(params[i]));
              m_tolerance[i] = 4 * kEps * (std::abs(m[i]) + size);
              v_tolerance[i] = 6 * kEps * (v32[i] + size * size);
              p_after[i] = e.p, m_after[i] = e.m, v_after[i] = e.v;
            }
            op.slices.push_back(
                {.masters = c.in_out({numel}, params, p_after, p_tolerance),
                 .grads = c.in({numel}, g),
                 .states = {c.in_out({numel}, m, m_after, m_tolerance), c.in_out({numel}, v32, v_after, v_tolerance)},
                 .copy = p.add_copy(c, p_after, p_tolerance),
                 .weight_decay = decay,
                 .lr_scale = lr_scale});
          }
          cases.push_back(c.of(std::move(op), p.text(), mode == AdamMode::decoupled ? " decoupled" : " L2", " decay ",
                               first_decay, " step ", step));
        }
}

void add_cases(Cases& cases, Of<Sgd>) {
  for (UpdateProblem p : update_problems())
    for (const double momentum : {0.0, 0.9})
      for (const bool nesterov : {false, true})
        for (const double first_decay : {0.0, 0.05}) {
          if (momentum == 0 && nesterov) continue;
          Case c;
          p.scalars.coefficients = {momentum};
          Sgd op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}, nesterov};
          for (const int64_t numel : slice_sizes(p)) {
            const double decay = op.slices.empty() ? first_decay : 0.1;
            const float lr_scale = op.slices.empty() ? 1 : 0.3f;
            const auto n = at(numel);
            const Doubles g = normal(n, 1), params = normal(n, 2), buffer = normal(n, 3);
            Doubles p_after = params, b_after = buffer, p_tolerance(n), b_tolerance(n);
            const reference::SgdOptions options{p.scalars.lr * lr_scale, momentum, decay, nesterov};
            for (size_t i = 0; i < n && !p.skip; ++i) {
              const auto e = reference::sgd(options, {params[i], buffer[i]}, g[i] * p.scalars.grad_scale);
              const double size = std::abs(g[i]) + decay * std::abs(params[i]) + momentum * std::abs(buffer[i]);
              p_tolerance[i] = kEps * (std::abs(params[i]) + 8 * options.lr * size);
              b_tolerance[i] = 4 * kEps * size;
              p_after[i] = e.p, b_after[i] = e.buffer;
            }
            op.slices.push_back({.masters = c.in_out({numel}, params, p_after, p_tolerance),
                                 .grads = c.in({numel}, g),
                                 .states = {momentum == 0 ? kNone : c.in_out({numel}, buffer, b_after, b_tolerance)},
                                 .copy = p.add_copy(c, p_after, p_tolerance),
                                 .weight_decay = decay,
                                 .lr_scale = lr_scale});
          }
          cases.push_back(c.of(std::move(op), p.text(), " momentum ", momentum, nesterov ? " Nesterov" : "", " decay ",
                               first_decay));
        }
}

void add_cases(Cases& cases, Of<RmsProp>) {
  for (UpdateProblem p : update_problems())
    for (const double momentum : {0.0, 0.9})
      for (const bool centered : {false, true})
        for (const double first_decay : {0.0, 0.05}) {
          Case c;
          p.scalars.coefficients = {momentum};
          RmsProp op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}, /*alpha=*/0.9, /*eps=*/1e-6};
          for (const int64_t numel : slice_sizes(p)) {
            const double decay = op.slices.empty() ? first_decay : 0.1;
            const float lr_scale = op.slices.empty() ? 1 : 0.3f;
            const auto n = at(numel);
            const Doubles g = normal(n, 1), params = normal(n, 2), buffer = normal(n, 3), mean = normal(n, 4, 0.1);
            Doubles square = squares(normal(n, 5));
            for (size_t i = 0; i < n; ++i)  // more than the mean's square, as a mean of squares is
              square[i] = static_cast<float>(square[i] + mean[i] * mean[i] + 0.05);
            Doubles after[4] = {params, square, buffer, mean}, tolerance[4];
            for (Doubles& t : tolerance) t.resize(n);
            const reference::RmsPropOptions options{
                p.scalars.lr * lr_scale, op.alpha, op.eps, decay, momentum, centered};
            for (size_t i = 0; i < n && !p.skip; ++i) {
              const auto e =
                  reference::rmsprop(options, {params[i], square[i], buffer[i], mean[i]}, g[i] * p.scalars.grad_scale);
              const double size = std::abs(g[i]) + decay * std::abs(params[i]) + std::abs(mean[i]);
              const double rest = e.square_avg - (centered ? e.grad_avg * e.grad_avg : 0);
              // Of the quotient: its own roundings, and what the difference under the root loses.
              const double quotient = size / (std::sqrt(rest) + op.eps);
              const double step = (4 + 4 * (e.square_avg + size * size) / rest) * quotient + std::abs(buffer[i]);
              after[0][i] = e.p, after[1][i] = e.square_avg, after[2][i] = e.buffer, after[3][i] = e.grad_avg;
              tolerance[0][i] = kEps * (std::abs(params[i]) + 4 * options.lr * step);
              tolerance[1][i] = 6 * kEps * (square[i] + size * size);
              tolerance[2][i] = 4 * kEps * step;
              tolerance[3][i] = 4 * kEps * size;
            }
            const ValueId masters = c.in_out({numel}, params, after[0], tolerance[0]), grads = c.in({numel}, g);
            op.slices.push_back({.masters = masters,
                                 .grads = grads,
                                 .states = {c.in_out({numel}, square, after[1], tolerance[1]),
                                            momentum == 0 ? kNone : c.in_out({numel}, buffer, after[2], tolerance[2]),
                                            centered ? c.in_out({numel}, mean, after[3], tolerance[3]) : kNone},
                                 .copy = p.add_copy(c, after[0], tolerance[0]),
                                 .weight_decay = decay,
                                 .lr_scale = lr_scale});
          }
          cases.push_back(c.of(std::move(op), p.text(), " momentum ", momentum, centered ? " centered" : "", " decay ",
                               first_decay));
        }
}

void add_cases(Cases& cases, Of<Lion>) {
  for (UpdateProblem p : update_problems())
    for (const double first_decay : {0.0, 0.1}) {
      Case c;
      const double beta1 = 0.9, beta2 = 0.99;
      p.scalars.coefficients = {beta1, beta2};
      Lion op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}};
      for (const int64_t numel : slice_sizes(p)) {
        const double decay = op.slices.empty() ? first_decay : 0.2;
        const float lr_scale = op.slices.empty() ? 1 : 0.3f;
        const auto n = at(numel);
        const Doubles params = normal(n, 2);
        Doubles g = normal(n, 1), m = normal(n, 3);
        g[n / 2] = m[n / 2] = 0;  // what no gradient reached
        Doubles p_after = params, m_after = m, p_tolerance(n), m_tolerance(n);
        const reference::LionOptions options{p.scalars.lr * lr_scale, beta1, beta2, decay};
        for (size_t i = 0; i < n && !p.skip; ++i) {
          const auto e = reference::lion(options, {params[i], m[i]}, g[i] * p.scalars.grad_scale);
          p_tolerance[i] = kEps * (std::abs(params[i]) + 4 * options.lr * (1 + decay * std::abs(params[i])));
          m_tolerance[i] = 4 * kEps * (std::abs(m[i]) + std::abs(g[i]));
          p_after[i] = e.p, m_after[i] = e.m;
        }
        op.slices.push_back({.masters = c.in_out({numel}, params, p_after, p_tolerance),
                             .grads = c.in({numel}, g),
                             .states = {c.in_out({numel}, m, m_after, m_tolerance)},
                             .copy = p.add_copy(c, p_after, p_tolerance),
                             .weight_decay = decay,
                             .lr_scale = lr_scale});
      }
      cases.push_back(c.of(std::move(op), p.text(), " decay ", first_decay));
    }
}

void add_cases(Cases& cases, Of<Adagrad>) {
  for (UpdateProblem p : update_problems())
    for (const double rate_factor : {1.0, 0.25})
      for (const double first_decay : {0.0, 0.05}) {
        Case c;
        p.scalars.coefficients = {rate_factor};
        Adagrad op{{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)}, /*eps=*/1e-6};
        for (const int64_t numel : slice_sizes(p)) {
          const double decay = op.slices.empty() ? first_decay : 0.1;
          const float lr_scale = op.slices.empty() ? 1 : 0.3f;
          const auto n = at(numel);
          const Doubles g = normal(n, 1), params = normal(n, 2);
          Doubles sum = squares(normal(n, 3));
          for (double& x : sum) x = static_cast<float>(x);
          Doubles p_after = params, s_after = sum, p_tolerance(n), s_tolerance(n);
          const reference::AdagradOptions options{p.scalars.lr * lr_scale * rate_factor, op.eps, decay};
          for (size_t i = 0; i < n && !p.skip; ++i) {
            const auto e = reference::adagrad(options, {params[i], sum[i]}, g[i] * p.scalars.grad_scale);
            const double size = std::abs(g[i]) + decay * std::abs(params[i]);
            // The quotient is at most 1, but where the gradient is a difference it inherits its roundings.
            p_tolerance[i] = kEps * (std::abs(params[i]) + 8 * options.lr * (1 + size / std::sqrt(e.sum)));
            s_tolerance[i] = 6 * kEps * (sum[i] + size * size);
            p_after[i] = e.p, s_after[i] = e.sum;
          }
          op.slices.push_back({.masters = c.in_out({numel}, params, p_after, p_tolerance),
                               .grads = c.in({numel}, g),
                               .states = {c.in_out({numel}, sum, s_after, s_tolerance)},
                               .copy = p.add_copy(c, p_after, p_tolerance),
                               .weight_decay = decay,
                               .lr_scale = lr_scale});
        }
        cases.push_back(c.of(std::move(op), p.text(), " rate times ", rate_factor, " decay ", first_decay));
      }
}

}  // namespace ct::cases
