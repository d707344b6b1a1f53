#include "selftest/reference/optimizer.h"

#include <algorithm>
#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/cases/update_problem.h"
#include "selftest/reference/bounded.h"

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

namespace {

/// A module with each of its switches on and off, and with and without momentum, as far as it accepts that.
std::vector<optim::Optimizer> variations_of(const optim::Optimizer& module) {
  std::vector<optim::Optimizer> all{module};
  const size_t keys = optim::keys_of(all[0]).size();
  for (size_t k = 0; k < keys; ++k) {
    const size_t count = all.size();
    for (size_t i = 0; i < count; ++i) {
      optim::Optimizer changed = all[i];
      const ConfigKey key = optim::keys_of(changed)[k];
      if (bool* const* flag = std::get_if<bool*>(&key.target))
        **flag = !**flag;
      else if (double* const* number = std::get_if<double*>(&key.target); number && key.name == "momentum")
        **number = **number == 0 ? 0.9 : **number;
      else
        continue;
      all.push_back(changed);
    }
  }
  std::erase_if(all, [](const optim::Optimizer& o) { return optim::fault_of(o).has_value(); });
  return all;
}

/// The elements of a slice before and after a step, by the reference.
template <class Module>
struct Elements {
  using Rule = decltype(std::declval<Module>().rule());
  static constexpr size_t kStates = Rule::kStates.size();
  Doubles gradients, weights, states[kStates + 1], weights_after, states_after[kStates + 1];
  Doubles weights_tolerance, states_tolerance[kStates + 1];

  Elements(const Module& module, reference::UpdateStep at, size_t n, double grad_scale, bool skip)
      : gradients(normal(n, 1)), weights(normal(n, 2)) {
    gradients[n / 2] = 0;  // what no gradient reached
    // States as some steps leave them, which float holds exactly.
    for (Doubles& values : states) values.resize(n);
    for (int64_t before = 1; before < std::min<int64_t>(at.t, 4); ++before) {
      Doubles g = normal(n, 10 + static_cast<uint32_t>(before));
      g[n / 2] = 0;
      for (size_t i = 0; i < n; ++i) {
        auto s = states_of<double>(i);
        double w = weights[i];
        if constexpr (std::is_same_v<Module, optim::Lamb>) reference::moments(module.betas, g[i], s);
        reference::step(module, at, g[i], w, s);
        for (size_t k = 0; k < kStates; ++k) states[k][i] = static_cast<float>(reinterpret_cast<double*>(&s)[k]);
      }
    }
    weights_after = weights;
    weights_tolerance.resize(n);
    for (size_t k = 0; k < kStates; ++k) states_after[k] = states[k], states_tolerance[k].resize(n);
    for (size_t i = 0; i < n && !skip; ++i) {
      using reference::Bounded;
      auto s = states_of<Bounded>(i);
      Bounded w(weights[i]);
      reference::step(module, at, Bounded(gradients[i]) * Bounded(Rule::kScalesGradients ? grad_scale : 1), w, s);
      take(w, weights_after[i], weights_tolerance[i]);
      for (size_t k = 0; k < kStates; ++k)
        take(reinterpret_cast<Bounded*>(&s)[k], states_after[k][i], states_tolerance[k][i]);
    }
  }

 private:
  template <class T>
  auto states_of(size_t i) const {
    typename Rule::template States<T> s{};
    for (size_t k = 0; k < kStates; ++k) reinterpret_cast<T*>(&s)[k] = T(states[k][i]);
    return s;
  }
  /// A device may use a different order from the reference's.
  static void take(const reference::Bounded& x, double& value, double& tolerance) {
    value = x.value;
    tolerance = 2 * x.error;
  }
};

constexpr double kRatios[] = {0.5, 0.03125, 7};  // of three tensors, which float holds exactly

template <class Module>
void add_update(Cases& cases, const UpdateProblem& problem, const Module& module, int64_t t, const std::string& text) {
  const auto rule = module.rule();
  using Rule = std::decay_t<decltype(rule)>;
  const auto kept = rules::kept_states<Rule>(rule.form);
  UpdateProblem p = problem;
  p.scalars.coefficients = optim::row_of(module, module.rates(), t - 1).coefficients;
  Case c;
  Update update{.scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8)};
  if (Rule::kTrusted) update.ratios = c.in({3}, {std::begin(kRatios), std::end(kRatios)});
  for (const int64_t numel : slice_sizes(p)) {
    const bool first = update.slices.empty();
    UpdateSlice slice{.weight_decay = first ? 0.1 * (t > 1) : 0.2, .lr_scale = first ? 1 : 0.3f};
    if (Rule::kTrusted) slice.tensor = first ? 2 : 0;
    const reference::UpdateStep at{.t = t,
                                   .lr = p.scalars.lr * slice.lr_scale,
                                   .weight_decay = slice.weight_decay,
                                   .trust = Rule::kTrusted ? kRatios[slice.tensor] : 1};
    const Elements<Module> e(module, at, cases::at(numel), p.scalars.grad_scale, p.skip);
    slice.masters = c.in_out({numel}, e.weights, e.weights_after, e.weights_tolerance);
    slice.grads = c.in({numel}, e.gradients);
    for (size_t k = 0; k < kept.size(); ++k)
      slice.states.push_back(!kept[k] ? kNone
                             : Rule::kWritesStates
                                 ? c.in_out({numel}, e.states[k], e.states_after[k], e.states_tolerance[k])
                                 : c.in({numel}, e.states[k]));
    slice.copy = p.add_copy(c, e.weights_after, e.weights_tolerance);
    update.slices.push_back(std::move(slice));
  }
  cases.push_back(c.of(optim::update_by(rule, std::move(update)), p.text(), text, " step ", t));
}

}  // namespace

void add_update_cases(Cases& cases, std::string_view operation) {
  std::vector<std::string> seen;  // settings that do not change the operation
  for (const optim::Optimizer& module : optim::all_of<optim::Optimizer>())
    for (const optim::Optimizer& variation : variations_of(module))
      std::visit(
          [&](const auto& o) {
            const auto rule = o.rule();
            if (rule.kName != operation) return;
            for (const int64_t t : {1, 30}) {
              const auto coefficients = optim::row_of(o, o.rates(), t - 1).coefficients;
              const std::string text = str(" ", o.kType, " form ", rule.form, " coefficients ", coefficients[0], " ",
                                           coefficients[1], " ", coefficients[2], " ", coefficients[3]);
              if (std::ranges::find(seen, text + str(t)) != seen.end()) continue;
              seen.push_back(text + str(t));
              for (const UpdateProblem& p : update_problems()) add_update(cases, p, o, t, text);
            }
          },
          variation);
  check(!seen.empty(), "no optimizer has the rule ", operation);
}

}  // namespace ct::cases
