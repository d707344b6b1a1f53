// Scalar reference of the tutorial network: its loss, as a template for complex steps, and its gradient and training in
// double. Parameters in PyTorch's order and layout: conv1.weight [6][3][5][5], conv1.bias, conv2.weight [16][6][5][5],
// conv2.bias, fc1.weight [120][400], fc1.bias, fc2.weight, fc2.bias, fc3.weight, fc3.bias.
#pragma once

#include <functional>

#include "reference/optimizers.h"
#include "selftest/reference/conv.h"
#include "selftest/reference/dense.h"

namespace ct::reference {

template <class T>
using Parameters = std::vector<std::vector<T>>;

/// Normalised images [n][3][32][32].
struct Batch {
  std::vector<double> images;
  std::vector<int> labels;
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

inline Conv cnn_conv1(int64_t n) { return {n, 3, 32, 32, 6, 5, 1, 0}; }
inline Conv cnn_conv2(int64_t n) { return {n, 6, 14, 14, 16, 5, 1, 0}; }

/// Everything that the forward pass computes; convolutions in NHWC, flattened as PyTorch does.
template <class T>
struct CnnPass {
  std::vector<T> x, w1, w2, h1, h2, flat, f1, f2, logits;
  std::vector<uint8_t> argmax1, argmax2;
  T loss = 0;
};

template <class T>
CnnPass<T> cnn_forward(const Parameters<T>& p, const Batch& batch) {
  const int64_t n = batch.size();
  CnnPass<T> a;
  a.x = to_channels_last(std::vector<T>(batch.images.begin(), batch.images.end()), n, 3, 32 * 32);
  a.w1 = to_channels_last(p[0], 6, 3, 25);
  a.w2 = to_channels_last(p[2], 16, 6, 25);
  a.h1 = conv_relu_pool(cnn_conv1(n), a.x, a.w1, p[1], a.argmax1);
  a.h2 = conv_relu_pool(cnn_conv2(n), a.h1, a.w2, p[3], a.argmax2);
  a.flat = to_channels_last(a.h2, n, 25, 16);  // channels first: the transposition is its own kind
  a.f1 = relu(linear(n, 400, 120, a.flat, p[4], p[5]));
  a.f2 = relu(linear(n, 120, 84, a.f1, p[6], p[7]));
  a.logits = linear(n, 84, 10, a.f2, p[8], p[9]);
  for (int64_t i = 0; i < n; ++i)
    a.loss += softmax_cross_entropy(std::vector<T>(a.logits.begin() + 10 * i, a.logits.begin() + 10 * (i + 1)),
                                    batch.labels[static_cast<size_t>(i)], 0) /
              static_cast<double>(n);
  return a;
}

/// The mean loss; `gradients` receives its gradient, like the parameters.
inline double cnn_gradient(const Parameters<double>& p, const Batch& batch, Parameters<double>& gradients) {
  const int64_t n = batch.size();
  const CnnPass<double> a = cnn_forward(p, batch);
  std::vector<double> dz;
  for (int64_t i = 0; i < n; ++i)
    for (const double d : softmax_cross_entropy_gradient({a.logits.begin() + 10 * i, a.logits.begin() + 10 * (i + 1)},
                                                         batch.labels[static_cast<size_t>(i)], 0))
      dz.push_back(d / static_cast<double>(n));
  const LinearGradients g3 = linear_gradients(n, 84, 10, a.f2, p[8], dz);
  const LinearGradients g2 = linear_gradients(n, 120, 84, a.f1, p[6], relu_gradient(a.f2, g3.dx));
  const LinearGradients g1 = linear_gradients(n, 400, 120, a.flat, p[4], relu_gradient(a.f1, g2.dx));
  const std::vector<double> dh2 = to_channels_last(g1.dx, n, 16, 25);
  const ConvGradients c2 = conv_relu_pool_gradients(cnn_conv2(n), a.h1, a.w2, dh2, a.argmax2);
  const ConvGradients c1 = conv_relu_pool_gradients(cnn_conv1(n), a.x, a.w1, c2.dx, a.argmax1);
  gradients = {to_channels_last(c1.dw, 6, 25, 3),
               c1.db,
               to_channels_last(c2.dw, 16, 25, 6),
               c2.db,
               g1.dw,
               g1.db,
               g2.dw,
               g2.db,
               g3.dw,
               g3.db};
  return a.loss;
}

/// The loss of each of the first `steps` steps; batch(i) is what step i, from 0, learns from.
inline std::vector<double> train_cnn(Parameters<double> params, const std::function<Batch(int)>& batch, int steps,
                                     const optim::Optimizer& optimizer) {
  std::vector<Weights<double>> weights;
  for (const auto& p : params) weights.push_back({.shape = {}, .p = p});
  Parameters<double> gradients;
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    losses.push_back(cnn_gradient(params, batch(step), gradients));
    for (size_t i = 0; i < params.size(); ++i) {
      update(optimizer, weights[i], gradients[i], step + 1);
      params[i] = weights[i].p;
    }
  }
  return losses;
}

}  // namespace ct::reference
