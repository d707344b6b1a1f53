// Scalar reference of the tutorial's network with mixtures of experts, where nothing is dropped and nothing is drawn:
// every expert computes every image, and a softmax of the gate's logits over the chosen ones weighs the results.
#pragma once

#include <algorithm>
#include <string>

#include "reference/cnn.h"
#include "reference/named_parameters.h"

namespace ct::reference {

struct CnnMoe {
  std::vector<int64_t> experts;
  int top_k = 1;
  bool residual = false;
  double aux_coefficient = 0;
};

template <class T>
struct Mixed {
  std::vector<T> y;
  T aux;
};

template <class T>
std::vector<T> named_linear(const NamedParameters<T>& p, const std::string& name, int64_t n, int64_t in, int64_t out,
                            const std::vector<T>& x) {
  const auto bias = p.find(name + ".bias");
  return linear(n, in, out, x, p.at(name + ".weight"),
                bias == p.end() ? std::vector<T>(static_cast<size_t>(out)) : bias->second);
}

/// Of one row of logits.
template <class T>
std::vector<T> softmax_of(std::vector<T> z) {
  T sum = 0;
  for (T& v : z) sum += v = std::exp(v);
  for (T& v : z) v /= sum;
  return z;
}

template <class T>
Mixed<T> mixture(const CnnMoe& s, const NamedParameters<T>& p, const std::string& name, int64_t experts, int64_t n,
                 const std::vector<T>& x) {
  const auto width = static_cast<size_t>(84);
  Mixed<T> m{std::vector<T>(static_cast<size_t>(n) * width), 0};
  const std::vector<T> logits = named_linear(p, name + ".deepspeed_moe.gate.wg", n, 84, experts, x);
  std::vector<std::vector<T>> results;
  for (int64_t e = 0; e < experts; ++e)
    results.push_back(
        named_linear(p, name + ".deepspeed_moe.experts.deepspeed_experts." + std::to_string(e), n, 84, 84, x));
  const auto count = static_cast<size_t>(experts);
  std::vector<T> mean(count);
  std::vector<double> first(count);
  for (size_t row = 0; row < static_cast<size_t>(n); ++row) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * count);
    const std::vector<T> gates = softmax_of(std::vector<T>(begin, begin + experts));
    std::vector<size_t> order(count);
    for (size_t e = 0; e < count; ++e) order[e] = e;
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return real(gates[a]) > real(gates[b]); });
    first[order[0]] += 1.0 / static_cast<double>(n);
    T sum = 0;
    for (int i = 0; i < s.top_k; ++i) sum += gates[order[static_cast<size_t>(i)]];
    for (int i = 0; i < s.top_k; ++i) {
      const size_t e = order[static_cast<size_t>(i)];
      const T weight = s.top_k == 1 ? gates[e] : gates[e] / sum;
      for (size_t c = row * width; c < (row + 1) * width; ++c) m.y[c] += weight * results[e][c];
    }
    for (size_t e = 0; e < count; ++e) mean[e] += gates[e] / static_cast<double>(n);
  }
  for (size_t e = 0; e < count; ++e) m.aux += static_cast<double>(experts) * first[e] * mean[e];
  if (!s.residual) return m;
  const std::vector<T> all = named_linear(p, name + ".mlp", n, 84, 84, x);
  const std::vector<T> scores = named_linear(p, name + ".coefficient", n, 84, 2, x);
  for (size_t c = 0; c < m.y.size(); ++c) {
    const std::vector<T> share = softmax_of(std::vector<T>{scores[c / width * 2], scores[c / width * 2 + 1]});
    m.y[c] = share[0] * m.y[c] + share[1] * all[c];
  }
  return m;
}

template <class T>
T cnn_moe_loss(const CnnMoe& s, const NamedParameters<T>& p, const Batch& batch) {
  const int64_t n = batch.size();
  std::vector<uint8_t> argmax;
  const auto image = to_channels_last(std::vector<T>(batch.images.begin(), batch.images.end()), n, 3, 32 * 32);
  auto h =
      conv_relu_pool(cnn_conv1(n), image, to_channels_last(p.at("conv1.weight"), 6, 3, 25), p.at("conv1.bias"), argmax);
  h = conv_relu_pool(cnn_conv2(n), h, to_channels_last(p.at("conv2.weight"), 16, 6, 25), p.at("conv2.bias"), argmax);
  h = to_channels_last(h, n, 25, 16);  // channels first: the transposition is its own kind
  h = relu(named_linear(p, "fc1", n, 400, 120, h));
  h = relu(named_linear(p, "fc2", n, 120, 84, h));
  T aux = 0;
  for (size_t i = 0; i < s.experts.size(); ++i) {
    Mixed<T> mixed = mixture(s, p, "moe_layer_list." + std::to_string(i), s.experts[i], n, h);
    h = std::move(mixed.y);
    aux += mixed.aux;
  }
  return mean_loss(named_linear(p, "fc4", n, 84, 10, h), batch.labels) + s.aux_coefficient * aux;
}

}  // namespace ct::reference
