// The optimizers' formulas over whole tensors, written down as PyTorch, timm and DeepSpeed have them and computed in
// any element type, in that type alone: what the program is compared with, in f64 and in f32.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "optim/optimizer.h"

namespace ct::reference {

/// A parameter in PyTorch's order; what an optimizer remembers begins at zero.
template <class T>
struct Weights {
  std::vector<int64_t> shape;
  std::vector<T> p, first = std::vector<T>(p.size()), second = first, third = first;
  size_t size() const { return p.size(); }
};

template <class T>
T norm(const std::vector<T>& x) {
  T sum = 0;
  for (const T v : x) sum += v * v;
  return std::sqrt(sum);
}

template <class T>
class Optimizer {
 public:
  explicit Optimizer(const optim::Optimizer& of) : of_(of) {}

  /// Applied step number t, counted from 1.
  void step(Weights<T>& w, const std::vector<float>& gradient, int64_t t) const {
    std::vector<T> g(gradient.begin(), gradient.end());
    std::visit([&](const auto& o) { step(o, w, g, t); }, of_);
  }

 private:
  using Vector = std::vector<T>;
  static T power(double base, int64_t t) { return static_cast<T>(std::pow(base, static_cast<double>(t))); }
  static T of(double x) { return static_cast<T>(x); }

  static void step(const optim::Sgd& o, Weights<T>& w, Vector& g, int64_t) {
    for (size_t i = 0; i < w.size(); ++i) {
      g[i] += of(o.weight_decay) * w.p[i];
      w.first[i] = of(o.momentum) * w.first[i] + g[i];
      w.p[i] -= of(o.lr) * (o.nesterov ? g[i] + of(o.momentum) * w.first[i] : w.first[i]);
    }
  }

  static void adam(const optim::AdamW& o, bool decoupled, double lr, Weights<T>& w, Vector& g, int64_t t) {
    const T correct1 = o.bias_correction ? 1 - power(o.betas[0], t) : 1;
    const T correct2 = o.bias_correction ? std::sqrt(1 - power(o.betas[1], t)) : 1;
    for (size_t i = 0; i < w.size(); ++i) {
      if (decoupled)
        w.p[i] *= 1 - of(lr * o.weight_decay);
      else
        g[i] += of(o.weight_decay) * w.p[i];
      w.first[i] = of(o.betas[0]) * w.first[i] + of(1 - o.betas[0]) * g[i];
      w.second[i] = of(o.betas[1]) * w.second[i] + of(1 - o.betas[1]) * g[i] * g[i];
      w.p[i] -= of(lr) / correct1 * (w.first[i] / (std::sqrt(w.second[i]) / correct2 + of(o.eps)));
    }
  }
  static void step(const optim::AdamW& o, Weights<T>& w, Vector& g, int64_t t) { adam(o, true, o.lr, w, g, t); }
  static void step(const optim::Adam& o, Weights<T>& w, Vector& g, int64_t t) { adam(o, o.adam_w_mode, o.lr, w, g, t); }

  static void step(const optim::RmsProp& o, Weights<T>& w, Vector& g, int64_t) {
    for (size_t i = 0; i < w.size(); ++i) {
      g[i] += of(o.weight_decay) * w.p[i];
      w.first[i] = of(o.alpha) * w.first[i] + of(1 - o.alpha) * g[i] * g[i];
      if (o.centered) w.third[i] = of(o.alpha) * w.third[i] + of(1 - o.alpha) * g[i];
      const T under = w.first[i] - (o.centered ? w.third[i] * w.third[i] : 0);
      w.second[i] = of(o.momentum) * w.second[i] + g[i] / (std::sqrt(under) + of(o.eps));
      w.p[i] -= of(o.lr) * w.second[i];
    }
  }

  static void step(const optim::Adagrad& o, Weights<T>& w, Vector& g, int64_t t) {
    const T lr = of(o.lr / (1 + static_cast<double>(t - 1) * o.lr_decay));
    for (size_t i = 0; i < w.size(); ++i) {
      g[i] += of(o.weight_decay) * w.p[i];
      w.first[i] += g[i] * g[i];
      w.p[i] -= lr * (g[i] / (std::sqrt(w.first[i]) + of(o.eps)));
    }
  }

  static void step(const optim::Lion& o, Weights<T>& w, Vector& g, int64_t) {
    for (size_t i = 0; i < w.size(); ++i) {
      w.p[i] *= 1 - of(o.lr * o.weight_decay);
      const T c = of(o.betas[0]) * w.first[i] + of(1 - o.betas[0]) * g[i];
      w.p[i] -= of(o.lr) * static_cast<T>((c > 0) - (c < 0));
      w.first[i] = of(o.betas[1]) * w.first[i] + of(1 - o.betas[1]) * g[i];
    }
  }

  static void step(const optim::Lars& o, Weights<T>& w, Vector& g, int64_t) {
    if (o.weight_decay != 0 || o.always_adapt) {
      const T of_w = norm(w.p), of_g = norm(g);
      T trust = 1;
      if (of_w > 0 && of_g > 0) trust = of(o.trust_coeff) * of_w / (of_g + of_w * of(o.weight_decay) + of(o.eps));
      if (o.trust_clip) trust = std::min(trust / of(o.lr), T(1));
      for (size_t i = 0; i < w.size(); ++i) g[i] = trust * (g[i] + of(o.weight_decay) * w.p[i]);
    }
    for (size_t i = 0; i < w.size(); ++i) {
      w.first[i] = of(o.momentum) * w.first[i] + g[i];
      w.p[i] -= of(o.lr) * (o.nesterov ? g[i] + of(o.momentum) * w.first[i] : w.first[i]);
    }
  }

  static void step(const optim::Lamb& o, Weights<T>& w, Vector& g, int64_t t) {
    T rate = of(o.lr);
    if (o.bias_correction) rate *= std::sqrt(1 - power(o.betas[1], t)) / (1 - power(o.betas[0], t));
    for (size_t i = 0; i < w.size(); ++i) {
      w.first[i] = of(o.betas[0]) * w.first[i] + of(1 - o.betas[0]) * g[i];
      w.second[i] = of(o.betas[1]) * w.second[i] + of(1 - o.betas[1]) * g[i] * g[i];
      g[i] = w.first[i] / (std::sqrt(w.second[i]) + of(o.eps)) + of(o.weight_decay) * w.p[i];
    }
    const T of_w = norm(w.p), of_u = norm(g);
    if (of_w > 0 && of_u > 0) rate *= std::clamp(of_w / of_u, of(o.min_coeff), of(o.max_coeff));
    for (size_t i = 0; i < w.size(); ++i) w.p[i] -= rate * g[i];
  }

  static void step(const optim::Muon& o, Weights<T>& w, Vector& g, int64_t t) {
    if (w.shape.size() != 2 && w.shape.size() != 4) {
      optim::AdamW rest;
      rest.betas = o.adamw_betas;
      rest.eps = o.adamw_eps;
      rest.weight_decay = o.weight_decay;
      return adam(rest, true, o.adamw_lr.value_or(o.lr), w, g, t);
    }
    for (size_t i = 0; i < w.size(); ++i) {
      w.first[i] += of(1 - o.momentum) * (g[i] - w.first[i]);
      g[i] = o.nesterov ? of(o.momentum) * w.first[i] + of(1 - o.momentum) * g[i] : w.first[i];
    }
    const auto out = static_cast<size_t>(w.shape[0]), rest = w.size() / out;
    orthogonalize(o, g, out, rest);
    const T rate = of(o.lr * o.ratio(w.shape[0], static_cast<int64_t>(rest)));
    for (size_t i = 0; i < w.size(); ++i) w.p[i] = w.p[i] * (1 - of(o.lr * o.weight_decay)) - rate * g[i];
  }

  /// x [rows][columns], by Newton and Schulz.
  static void orthogonalize(const optim::Muon& o, Vector& x, size_t rows, size_t columns) {
    const T by = std::max(norm(x), of(o.eps));
    for (T& v : x) v /= by;
    const bool wide = rows <= columns;
    const size_t n = wide ? rows : columns, length = wide ? columns : rows;
    const auto at = [&](size_t i, size_t k) -> T& { return wide ? x[i * columns + k] : x[k * columns + i]; };
    const T a = of(o.ns_coefficients[0]), b = of(o.ns_coefficients[1]), c = of(o.ns_coefficients[2]);
    for (int64_t turn = 0; turn < o.ns_steps; ++turn) {
      Vector gram(n * n), polynomial(n * n), column(n);
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
  }

  optim::Optimizer of_;
};

}  // namespace ct::reference
