// Scalar references of the optimizers, one element at a time.
#pragma once

#include <cmath>

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

/// Exponential moving average.
inline double ema(double decay, double average, double p) { return decay * average + (1 - decay) * p; }

}  // namespace ct::reference
