// Scalar references of the optimizers and of the reproducible sum, one element or one buffer at a time.
#pragma once

#include <cmath>
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

/// tree(leaves) = the leaf, if there is one; else tree(the first 2^k) + tree(the rest), 2^k the largest power < S.
inline float tree_sum(const std::vector<float>& leaves) {
  if (leaves.size() == 1) return leaves[0];
  size_t left = 1;
  while (left * 2 < leaves.size()) left *= 2;
  const auto cut = leaves.begin() + static_cast<std::ptrdiff_t>(left);
  return tree_sum({leaves.begin(), cut}) + tree_sum({cut, leaves.end()});
}

}  // namespace ct::reference
