// The optimizers over whole tensors, by the formulas of an element (selftest/reference/optimizer.h), in f64 or f32.
#pragma once

#include <limits>
#include <vector>

#include "selftest/reference/optimizer.h"

namespace ct::reference {

/// A parameter in PyTorch's order; what an optimizer remembers begins at zero.
template <class T>
struct Weights {
  std::vector<int64_t> shape;
  std::vector<T> p;
  std::vector<T> states[4] = {};
};

template <class T>
T norm(const std::vector<T>& x) {
  T sum = 0;
  for (const T v : x) sum += v * v;
  return std::sqrt(sum);
}

/// body(i, states) for every element.
template <class Rule, class T, class Body>
void for_states(Weights<T>& w, Body body) {
  for (auto& state : w.states) state.resize(w.p.size());
  for (size_t i = 0; i < w.p.size(); ++i) {
    typename Rule::template States<T> states{};
    auto* const values = reinterpret_cast<T*>(&states);
    for (size_t k = 0; k < Rule::kStates.size(); ++k) values[k] = w.states[k][i];
    body(i, states);
    for (size_t k = 0; k < Rule::kStates.size(); ++k) w.states[k][i] = values[k];
  }
}

template <class O, class T>
void step_all(const O& o, const UpdateStep& at, Weights<T>& w, const std::vector<T>& g) {
  for_states<decltype(o.rule())>(w, [&](size_t i, auto& states) { step(o, at, g[i], w.p[i], states); });
}

/// Of elementwise optimizers; the others' own follow.
template <class O, class T>
void update(const O& o, UpdateStep at, Weights<T>& w, const std::vector<T>& g) {
  step_all(o, at, w, g);
}
template <class T>
void update(const optim::Lars& o, UpdateStep at, Weights<T>& w, const std::vector<T>& g) {
  const TrustOptions options{.coefficient = o.trust_clip ? o.trust_coeff / at.lr : o.trust_coeff,
                             .weight_decay = o.weight_decay,
                             .eps = o.eps,
                             .least = 0,
                             .most = o.trust_clip ? 1 : std::numeric_limits<double>::infinity()};
  if (o.weight_decay != 0 || o.always_adapt) at.trust = trust(options, norm(w.p), norm(g));
  step_all(o, at, w, g);
}
template <class T>
void update(const optim::Lamb& o, UpdateStep at, Weights<T>& w, const std::vector<T>& g) {
  std::vector<T> updates(w.p.size());
  for_states<rules::Lamb>(w, [&](size_t i, auto& states) {
    moments(o.betas, g[i], states);
    updates[i] = lamb_update(o, o.weight_decay, w.p[i], states);
  });
  at.trust = trust({.coefficient = 1, .weight_decay = 0, .eps = 0, .least = o.min_coeff, .most = o.max_coeff},
                   norm(w.p), norm(updates));
  step_all(o, at, w, g);
}
template <class T>
void update(const optim::Muon& o, UpdateStep at, Weights<T>& w, const std::vector<T>& g) {
  if (w.shape.size() != 2 && w.shape.size() != 4) {
    at.lr *= o.adamw_share();
    return step_all(o.adamw(), at, w, g);
  }
  std::vector<T> directions = g;
  w.states[0].resize(g.size());
  for (size_t i = 0; i < g.size(); ++i) directions[i] = muon_direction(o.momentum, o.nesterov, w.states[0][i], g[i]);
  const auto out = static_cast<size_t>(w.shape[0]), rest = g.size() / out;
  directions = orthogonalize(o, std::move(directions), out, rest);
  for (T& direction : directions) direction *= static_cast<T>(o.ratio(w.shape[0], static_cast<int64_t>(rest)));
  step_all(o, at, w, directions);
}

/// Applied step number t, counted from 1.
template <class T, class G>
void update(const optim::Optimizer& of, Weights<T>& w, const std::vector<G>& gradient, int64_t t) {
  const std::vector<T> g(gradient.begin(), gradient.end());
  std::visit([&](const auto& o) { update(o, {.t = t, .lr = o.lr, .weight_decay = o.weight_decay}, w, g); }, of);
}

}  // namespace ct::reference
