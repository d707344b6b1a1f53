// The optimizers' formulas as in PyTorch, timm and DeepSpeed, computed entirely in any scalar type: the reference of
// the rules of graph/optimizer_rules-inl.h. An optimizer's step() updates one element.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "optim/optimizer.h"

namespace ct::reference {

/// An applied step of one tensor; t counts from 1. Rates are computed in f64.
struct UpdateStep {
  int64_t t;
  double lr, weight_decay;
  double trust = 1;  // the tensor's trust ratio, for rules that read it
};

template <class T>
T positive_part(T x) {
  return x < T(0) ? T(0) : x;
}
/// -1, 0 or 1.
inline double sign(double x) { return (x > 0) - (x < 0); }
inline float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

inline double power(double base, int64_t t) { return std::pow(base, static_cast<double>(t)); }

/// Adam's moments of a gradient.
template <class T, class States>
void moments(const std::array<double, 2>& betas, T g, States& s) {
  s.exp_avg = T(betas[0]) * s.exp_avg + T(1 - betas[0]) * g;
  s.exp_avg_sq = T(betas[1]) * s.exp_avg_sq + T(1 - betas[1]) * g * g;
}

template <class T>
void adam(const optim::AdamW& o, bool decoupled, const UpdateStep& at, T g, T& w, rules::Adam::States<T>& s) {
  using std::sqrt;
  const double correct1 = o.bias_correction ? 1 - power(o.betas[0], at.t) : 1;
  const double correct2 = o.bias_correction ? std::sqrt(1 - power(o.betas[1], at.t)) : 1;
  if (!decoupled) g = g + T(at.weight_decay) * w;
  moments(o.betas, g, s);
  if (decoupled) w = w * T(1 - at.lr * at.weight_decay);
  w = w - T(at.lr / correct1) * (s.exp_avg / (sqrt(s.exp_avg_sq) / T(correct2) + T(o.eps)));
}
template <class T>
void step(const optim::AdamW& o, const UpdateStep& at, T g, T& w, rules::Adam::States<T>& s) {
  adam(o, /*decoupled=*/true, at, g, w, s);
}
template <class T>
void step(const optim::Adam& o, const UpdateStep& at, T g, T& w, rules::Adam::States<T>& s) {
  adam(o, o.adam_w_mode, at, g, w, s);
}

template <class T>
void descend(double lr, double momentum, bool nesterov, T g, T& w, T& buffer) {
  buffer = T(momentum) * buffer + g;
  w = w - T(lr) * (nesterov ? g + T(momentum) * buffer : buffer);
}
template <class T>
void step(const optim::Sgd& o, const UpdateStep& at, T g, T& w, rules::Sgd::States<T>& s) {
  descend(at.lr, o.momentum, o.nesterov, g + T(at.weight_decay) * w, w, s.momentum_buffer);
}

template <class T>
void step(const optim::RmsProp& o, const UpdateStep& at, T g, T& w, rules::RmsProp::States<T>& s) {
  using std::sqrt;
  g = g + T(at.weight_decay) * w;
  s.square_avg = T(o.alpha) * s.square_avg + T(1 - o.alpha) * g * g;
  T v = s.square_avg;
  if (o.centered) {
    s.grad_avg = T(o.alpha) * s.grad_avg + T(1 - o.alpha) * g;
    v = positive_part(v - s.grad_avg * s.grad_avg);
  }
  s.momentum_buffer = T(o.momentum) * s.momentum_buffer + g / (sqrt(v) + T(o.eps));
  w = w - T(at.lr) * s.momentum_buffer;
}

template <class T>
void step(const optim::Adagrad& o, const UpdateStep& at, T g, T& w, rules::Adagrad::States<T>& s) {
  using std::sqrt;
  g = g + T(at.weight_decay) * w;
  s.sum = s.sum + g * g;
  w = w - T(at.lr / (1 + static_cast<double>(at.t - 1) * o.lr_decay)) * (g / (sqrt(s.sum) + T(o.eps)));
}

template <class T>
void step(const optim::Lion& o, const UpdateStep& at, T g, T& w, rules::Lion::States<T>& s) {
  const T direction = sign(T(o.betas[0]) * s.exp_avg + T(1 - o.betas[0]) * g);
  w = w * T(1 - at.lr * at.weight_decay) - T(at.lr) * direction;
  s.exp_avg = T(o.betas[1]) * s.exp_avg + T(1 - o.betas[1]) * g;
}

/// A trust ratio. LARS has a coefficient; for LAMB, coefficient is 1, weight_decay 0 and eps 0.
struct TrustOptions {
  double coefficient, weight_decay, eps, least, most;
};
template <class T>
T trust(const TrustOptions& o, T weight_norm, T update_norm) {
  if (!(weight_norm > 0) || !(update_norm > 0)) return 1;
  const T ratio = T(o.coefficient) * weight_norm / (update_norm + T(o.weight_decay) * weight_norm + T(o.eps));
  return std::fmin(std::fmax(ratio, static_cast<T>(o.least)), static_cast<T>(o.most));
}

/// timm's Lars.
template <class T>
void step(const optim::Lars& o, const UpdateStep& at, T g, T& w, rules::Lars::States<T>& s) {
  descend(at.lr, o.momentum, o.nesterov, T(at.trust) * (g + T(at.weight_decay) * w), w, s.momentum_buffer);
}

/// DeepSpeed's LAMB: the update from the new moments, without rate and trust, and the step.
template <class T>
T lamb_update(const optim::Lamb& o, double weight_decay, const T& w, const rules::Lamb::States<T>& s) {
  using std::sqrt;
  return s.exp_avg / (sqrt(s.exp_avg_sq) + T(o.eps)) + T(weight_decay) * w;
}
template <class T>
void step(const optim::Lamb& o, const UpdateStep& at, T, T& w, rules::Lamb::States<T>& s) {
  const double correct = o.bias_correction ? std::sqrt(1 - power(o.betas[1], at.t)) / (1 - power(o.betas[0], at.t)) : 1;
  w = w - T(at.lr * correct * at.trust) * lamb_update(o, at.weight_decay, w, s);
}

/// torch.optim.Muon: the direction before orthogonalisation, and the step with the orthogonalised direction.
template <class T>
T muon_direction(double momentum, bool nesterov, T& buffer, T g) {
  buffer = buffer + T(1 - momentum) * (g - buffer);
  return nesterov ? T(momentum) * buffer + T(1 - momentum) * g : buffer;
}
template <class T>
void step(const optim::Muon&, const UpdateStep& at, T direction, T& w, rules::Muon::States<T>&) {
  w = w * T(1 - at.lr * at.weight_decay) - T(at.lr) * direction;
}

/// The Newton-Schulz iteration of torch.optim.Muon, on a [rows][columns] matrix without pads.
template <class T>
std::vector<T> orthogonalize(const optim::Muon& o, std::vector<T> x, size_t rows, size_t columns) {
  T squares = 0;
  for (const T v : x) squares += v * v;
  const T by = std::fmax(std::sqrt(squares), static_cast<T>(o.eps));
  for (T& v : x) v /= by;
  const bool wide = rows <= columns;
  const size_t n = wide ? rows : columns, length = wide ? columns : rows;
  // Element k of the i-th of the n vectors.
  const auto at = [&](size_t i, size_t k) -> T& { return wide ? x[i * columns + k] : x[k * columns + i]; };
  const T a = T(o.ns_coefficients[0]), b = T(o.ns_coefficients[1]), c = T(o.ns_coefficients[2]);
  for (int64_t step = 0; step < o.ns_steps; ++step) {
    std::vector<T> gram(n * n), polynomial(n * n), column(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        for (size_t k = 0; k < length; ++k) gram[i * n + j] += at(i, k) * at(j, k);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        T square = 0;
        for (size_t k = 0; k < n; ++k) square += gram[i * n + k] * gram[k * n + j];
        polynomial[i * n + j] = b * gram[i * n + j] + c * square;
      }
    for (size_t k = 0; k < length; ++k) {
      for (size_t i = 0; i < n; ++i) {
        T sum = 0;
        for (size_t j = 0; j < n; ++j) sum += polynomial[i * n + j] * at(j, k);
        column[i] = a * at(i, k) + sum;
      }
      for (size_t i = 0; i < n; ++i) at(i, k) = column[i];
    }
  }
  return x;
}

/// Exponential moving average.
inline double ema(double decay, double average, double p) { return decay * average + (1 - decay) * p; }

}  // namespace ct::reference
