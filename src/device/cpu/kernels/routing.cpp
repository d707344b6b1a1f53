#include "device/cpu/kernels/routing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "device/cpu/kernels/linear.h"
#include "graph/routing_draws.h"

namespace ct::cpu {
namespace {

constexpr float kLeast = std::numeric_limits<float>::epsilon();  // what two weights are divided by
using Probabilities = std::array<float, kMostExperts>;

void softmax(const float* logits, int64_t experts, Probabilities& p) {
  float most = logits[0], sum = 0;
  for (int64_t e = 1; e < experts; ++e) most = std::max(most, logits[e]);
  for (int64_t e = 0; e < experts; ++e) sum += p[static_cast<size_t>(e)] = std::exp(logits[e] - most);
  for (int64_t e = 0; e < experts; ++e) p[static_cast<size_t>(e)] /= sum;
}

/// The first of those with the largest value, `but` aside.
template <class Value>
int32_t best_of(int64_t experts, int64_t but, Value value) {
  int64_t best = but == 0 ? 1 : 0;
  float most = value(best);
  for (int64_t e = best + 1; e < experts; ++e)
    if (const float v = e == but ? -std::numeric_limits<float>::infinity() : value(e); v > most) {
      most = v;
      best = e;
    }
  return static_cast<int32_t>(best);
}

/// The choices of all rows, choice by choice of a row.
void choose(const RouteArgs& a, int32_t* chosen) {
  const auto [rows, experts, capacity, top_k] = a.shape;
  for (int64_t row = 0; row < rows; ++row) {
    const float* logits = a.logits + row * padded(experts);
    const auto plain = [&](int64_t e) { return logits[e]; };
    const auto noisy = [&](int64_t e) { return logits[e] + gumbel_noise(*a.key, a.number, row * experts + e); };
    int32_t* to = chosen + row * top_k;
    to[0] = a.sampled ? best_of(experts, -1, noisy) : best_of(experts, -1, plain);
    if (top_k == 2) to[1] = a.key != nullptr ? best_of(experts, to[0], noisy) : best_of(experts, to[0], plain);
  }
}

/// Gives the places of an expert to those that chose it, in the order in which it takes them.
void give_places(const RouteArgs& a, int32_t expert, const int32_t* chosen, uint64_t* order) {
  const auto [rows, experts, capacity, top_k] = a.shape;
  int64_t count = 0;
  for (int choice = 0; choice < top_k; ++choice)
    for (int64_t row = 0; row < rows; ++row)
      if (const int64_t c = row * top_k + choice; chosen[c] == expert) order[count++] = static_cast<uint64_t>(c);
  if (a.key != nullptr && top_k == 1) {
    for (int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<int64_t>(order[i]);
      const uint32_t priority = routing_priority(*a.key, a.number, row * experts + expert);
      order[i] |= static_cast<uint64_t>(~priority) << 32;
    }
    std::sort(order, order + count);
  }
  int32_t* sources = a.sources + expert * capacity;
  for (int64_t i = 0; i < count; ++i) {
    const auto c = static_cast<int32_t>(order[i]);  // its lower half
    a.slots[c] = i < capacity ? static_cast<int32_t>(expert * capacity + i) : -1;
    if (i < capacity) sources[i] = c;
  }
  for (int64_t i = count; i < capacity; ++i) sources[i] = -1;
}

/// The weights of a row's choices. What was dropped has none, but what is not finite stays so.
void weigh(const RouteShape& s, const Probabilities& p, const int32_t* chosen, const int32_t* slots, float* weights) {
  float sum = 0;
  for (int i = 0; i < s.top_k; ++i)
    sum += weights[i] = p[static_cast<size_t>(chosen[i])] * static_cast<float>(slots[i] >= 0);
  if (s.top_k == 2)
    for (int i = 0; i < 2; ++i) weights[i] /= std::max(sum, kLeast);
}

}  // namespace

size_t route_workspace_bytes(const RouteShape& s) {
  return static_cast<size_t>(s.choices()) * (sizeof(uint64_t) + sizeof(int32_t));
}

void route(const RouteArgs& a) {
  const auto [rows, experts, capacity, top_k] = a.shape;
  auto* order = reinterpret_cast<uint64_t*>(a.workspace);
  auto* chosen = reinterpret_cast<int32_t*>(order + a.shape.choices());
  choose(a, chosen);
  for (int64_t e = 0; e < experts; ++e) give_places(a, static_cast<int32_t>(e), chosen, order);

  std::array<double, kMostExperts> sums = {};
  std::array<int64_t, kMostExperts> first = {};
  Probabilities p;
  for (int64_t row = 0; row < rows; ++row) {
    softmax(a.logits + row * padded(experts), experts, p);
    for (size_t e = 0; e < static_cast<size_t>(experts); ++e) sums[e] += static_cast<double>(p[e]);
    ++first[static_cast<size_t>(chosen[row * top_k])];
    weigh(a.shape, p, chosen + row * top_k, a.slots + row * top_k, a.weights + row * top_k);
  }
  double balance = 0;
  const auto n = static_cast<double>(rows);
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) {
    const double load = static_cast<double>(first[e]) / n;
    a.load[e] = static_cast<float>(load);
    balance += load * sums[e] / n;
  }
  if (a.balance != nullptr) *a.balance = static_cast<float>(balance * static_cast<double>(experts));
}

void route_grad(const RouteGradArgs& a) {
  const auto [rows, experts, capacity, top_k] = a.shape;
  const auto balance =
      static_cast<float>(a.balance_coefficient * static_cast<double>(experts) / static_cast<double>(rows));
  Probabilities p, dp;
  for (int64_t row = 0; row < rows; ++row) {
    softmax(a.logits + row * padded(experts), experts, p);
    for (size_t e = 0; e < static_cast<size_t>(experts); ++e) dp[e] = balance * a.load[e];
    const int32_t* slots = a.slots + row * top_k;
    const float* dweights = a.dweights + row * top_k;
    const auto expert = [&](int i) { return static_cast<size_t>(slots[i] / capacity); };
    float sum = 0;  // of what was not dropped
    for (int i = 0; i < top_k; ++i) sum += slots[i] >= 0 ? p[expert(i)] : 0;
    const bool tiny = sum <= kLeast;
    for (int i = 0; i < top_k; ++i) {
      if (slots[i] < 0) continue;
      if (top_k == 1)
        dp[expert(i)] += dweights[i];
      else if (tiny)
        dp[expert(i)] += dweights[i] / kLeast;
      else if (slots[1 - i] >= 0)  // alone it has the weight 1, whatever its probability
        dp[expert(i)] += (dweights[i] - dweights[1 - i]) * p[expert(1 - i)] / (sum * sum);
    }
    float mean = 0;
    for (size_t e = 0; e < static_cast<size_t>(experts); ++e) mean += p[e] * dp[e];
    float* dlogits = a.dlogits + row * padded(experts);
    for (size_t e = 0; e < static_cast<size_t>(experts); ++e) dlogits[e] = p[e] * (dp[e] - mean);
    std::fill(dlogits + experts, dlogits + padded(experts), 0.0f);
  }
}

}  // namespace ct::cpu
