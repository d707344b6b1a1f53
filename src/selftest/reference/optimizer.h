// Scalar references of the optimizers, one element at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace ct::reference {

/// Adam (Kingma & Ba, 2015), or AdamW (Loshchilov & Hutter, 2019) with decoupled decay, as PyTorch's.
struct AdamOptions {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
};
struct AdamElement {
  double p, m, v;
};
inline AdamElement adam(const AdamOptions& o, AdamElement e, double g, double correction1, double correction2) {
  if (!o.decoupled) g += o.weight_decay * e.p;
  e.m = o.beta1 * e.m + (1 - o.beta1) * g;
  e.v = o.beta2 * e.v + (1 - o.beta2) * g * g;
  if (o.decoupled) e.p -= o.lr * o.weight_decay * e.p;
  e.p -= o.lr * (e.m / correction1) / (std::sqrt(e.v / correction2) + o.eps);
  return e;
}

/// PyTorch's SGD; a momentum buffer starts at zero.
struct SgdOptions {
  double lr, momentum, weight_decay;
  bool nesterov;
};
struct SgdElement {
  double p, buffer;
};
inline SgdElement sgd(const SgdOptions& o, SgdElement e, double g) {
  g += o.weight_decay * e.p;
  e.buffer = o.momentum * e.buffer + g;
  e.p -= o.lr * (o.nesterov ? g + o.momentum * e.buffer : e.buffer);
  return e;
}

/// PyTorch's RMSprop.
struct RmsPropOptions {
  double lr, alpha, eps, weight_decay, momentum;
  bool centered;
};
struct RmsPropElement {
  double p, square_avg, buffer, grad_avg;
};
inline RmsPropElement rmsprop(const RmsPropOptions& o, RmsPropElement e, double g) {
  g += o.weight_decay * e.p;
  e.square_avg = o.alpha * e.square_avg + (1 - o.alpha) * g * g;
  if (o.centered) e.grad_avg += (1 - o.alpha) * (g - e.grad_avg);
  const double mean = o.centered ? e.grad_avg : 0;
  const double step = g / (std::sqrt(std::fmax(e.square_avg - mean * mean, 0)) + o.eps);
  e.buffer = o.momentum * e.buffer + step;
  e.p -= o.lr * (o.momentum > 0 ? e.buffer : step);
  return e;
}

/// Lion (Chen et al., 2023), sign(0) = 0.
struct LionOptions {
  double lr, beta1, beta2, weight_decay;
};
struct LionElement {
  double p, m;
};
inline LionElement lion(const LionOptions& o, LionElement e, double g) {
  const double c = o.beta1 * e.m + (1 - o.beta1) * g;
  e.p -= o.lr * ((c > 0) - (c < 0) + o.weight_decay * e.p);
  e.m = o.beta2 * e.m + (1 - o.beta2) * g;
  return e;
}

/// PyTorch's Adagrad; lr is that of the step.
struct AdagradOptions {
  double lr, eps, weight_decay;
};
struct AdagradElement {
  double p, sum;
};
inline AdagradElement adagrad(const AdagradOptions& o, AdagradElement e, double g) {
  g += o.weight_decay * e.p;
  e.sum += g * g;
  e.p -= o.lr * g / (std::sqrt(e.sum) + o.eps);
  return e;
}

/// A ratio of trust: LARS' with its coefficient, LAMB's with coefficient 1, decay 0 and eps 0.
struct TrustOptions {
  double coefficient, weight_decay, eps, least, most;
};
inline double trust(const TrustOptions& o, double weight_norm, double update_norm) {
  if (!(weight_norm > 0) || !(update_norm > 0)) return 1;
  const double ratio = o.coefficient * weight_norm / (update_norm + o.weight_decay * weight_norm + o.eps);
  return std::fmin(std::fmax(ratio, o.least), o.most);
}

/// timm's Lars, with a tensor's ratio of trust.
inline SgdElement lars(const SgdOptions& o, double trust, SgdElement e, double g) {
  g = trust * (g + o.weight_decay * e.p);
  return sgd({o.lr, o.momentum, /*weight_decay=*/0, o.nesterov}, e, g);
}

/// LAMB (You et al., 2019) as DeepSpeed's: the moments, the update before trust and rate, and the step.
struct LambOptions {
  double beta1, beta2, eps, weight_decay;
};
inline AdamElement lamb_moments(const LambOptions& o, AdamElement e, double g) {
  e.m = o.beta1 * e.m + (1 - o.beta1) * g;
  e.v = o.beta2 * e.v + (1 - o.beta2) * g * g;
  return e;
}
inline double lamb_update(const LambOptions& o, const AdamElement& e) {
  return e.m / (std::sqrt(e.v) + o.eps) + o.weight_decay * e.p;
}

/// Muon (torch.optim.Muon): the direction before it is orthogonalised.
struct MuonElement {
  double direction, buffer;
};
inline MuonElement muon_momentum(double momentum, bool nesterov, double buffer, double g) {
  buffer += (1 - momentum) * (g - buffer);
  return {nesterov ? momentum * buffer + (1 - momentum) * g : buffer, buffer};
}

/// Newton and Schulz's iteration of torch.optim.Muon, on a [rows][columns] matrix without pads.
struct OrthogonalizeOptions {
  int steps;
  double a, b, c, eps;
};
inline std::vector<double> orthogonalize(const OrthogonalizeOptions& o, std::vector<double> x, size_t rows,
                                         size_t columns) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::fmax(std::sqrt(squares), o.eps);
  const bool wide = rows <= columns;
  const size_t n = wide ? rows : columns, length = wide ? columns : rows;
  // Element k of the i-th of the n vectors.
  const auto at = [&](size_t i, size_t k) -> double& { return wide ? x[i * columns + k] : x[k * columns + i]; };
  for (int step = 0; step < o.steps; ++step) {
    std::vector<double> gram(n * n), polynomial(n * n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        for (size_t k = 0; k < length; ++k) gram[i * n + j] += at(i, k) * at(j, k);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        polynomial[i * n + j] = o.b * gram[i * n + j];
        for (size_t k = 0; k < n; ++k) polynomial[i * n + j] += o.c * gram[i * n + k] * gram[k * n + j];
      }
    std::vector<double> column(n);
    for (size_t k = 0; k < length; ++k) {
      for (size_t i = 0; i < n; ++i) {
        column[i] = o.a * at(i, k);
        for (size_t j = 0; j < n; ++j) column[i] += polynomial[i * n + j] * at(j, k);
      }
      for (size_t i = 0; i < n; ++i) at(i, k) = column[i];
    }
  }
  return x;
}

/// Exponential moving average.
inline double ema(double decay, double average, double p) { return decay * average + (1 - decay) * p; }

}  // namespace ct::reference
