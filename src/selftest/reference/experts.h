// Scalar references of a mixture of experts: routing with one-hot masks, dispatch and combine. Dense rows, no pads.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/routing_draws.h"
#include "selftest/reference/scalar.h"

namespace ct::reference {

struct RoutingSizes {
  int64_t rows, experts, capacity;
  int top_k;
  size_t choices() const { return static_cast<size_t>(rows * top_k); }
};

template <class T>
std::vector<T> softmax_of_row(const std::vector<T>& logits, int64_t row, int64_t experts) {
  const auto begin = logits.begin() + row * experts;
  std::vector<T> p(begin, begin + experts);
  double most = real(p[0]);
  for (const T& z : p) most = std::max(most, real(z));
  T sum = 0;
  for (T& z : p) sum += z = std::exp(z - most);
  for (T& z : p) z /= sum;
  return p;
}

struct Routed {
  std::vector<double> slots, sources, load;
  double margin = std::numeric_limits<double>::infinity();  // the smallest margin of all sampled choices
};

/// `key` null: no random choice.
inline Routed route(const RoutingSizes& s, const std::vector<double>& logits, const DropoutKey* key, bool sampled,
                    int number) {
  Routed r{std::vector<double>(s.choices(), -1), std::vector<double>(static_cast<size_t>(s.experts * s.capacity), -1),
           std::vector<double>(static_cast<size_t>(s.experts))};
  std::vector<std::vector<int64_t>> chosen(static_cast<size_t>(s.top_k));  // for each choice: the experts of all rows
  for (int64_t row = 0; row < s.rows; ++row)
    for (int choice = 0; choice < s.top_k; ++choice) {
      const bool noisy = key != nullptr && (choice == 1 || sampled);
      int64_t best = -1;
      double most = 0, next = -std::numeric_limits<double>::infinity();
      for (int64_t e = 0; e < s.experts; ++e) {
        if (choice == 1 && e == chosen[0].back()) continue;
        double value = logits[static_cast<size_t>(row * s.experts + e)];
        if (noisy) value += static_cast<double>(gumbel_noise(*key, number, row * s.experts + e));
        if (best < 0 || value > most) {
          if (best >= 0) next = most;
          most = value;
          best = e;
        } else {
          next = std::max(next, value);
        }
      }
      if (noisy) r.margin = std::min(r.margin, most - next);
      chosen[static_cast<size_t>(choice)].push_back(best);
    }
  for (int64_t e = 0; e < s.experts; ++e) {
    struct Wish {
      uint32_t priority;
      int64_t row;
      int choice;
    };
    std::vector<Wish> wishes;
    for (int choice = 0; choice < s.top_k; ++choice)
      for (int64_t row = 0; row < s.rows; ++row)
        if (chosen[static_cast<size_t>(choice)][static_cast<size_t>(row)] == e) {
          const bool drawn = key != nullptr && s.top_k == 1;
          wishes.push_back({drawn ? routing_priority(*key, number, row * s.experts + e) : 0, row, choice});
          if (choice == 0) r.load[static_cast<size_t>(e)] += 1.0 / static_cast<double>(s.rows);
        }
    std::ranges::stable_sort(wishes, std::ranges::greater(), &Wish::priority);
    for (int64_t place = 0; place < std::min(s.capacity, std::ssize(wishes)); ++place) {
      const Wish& wish = wishes[static_cast<size_t>(place)];
      const int64_t slot = e * s.capacity + place, of = wish.row * s.top_k + wish.choice;
      r.slots[static_cast<size_t>(of)] = static_cast<double>(slot);
      r.sources[static_cast<size_t>(slot)] = static_cast<double>(of);
    }
  }
  return r;
}

/// The weights of the choices that are not dropped.
template <class T>
std::vector<T> route_weights(const RoutingSizes& s, const std::vector<T>& logits, const std::vector<double>& slots) {
  std::vector<T> weights(s.choices());
  const auto k = static_cast<size_t>(s.top_k);
  for (int64_t row = 0; row < s.rows; ++row) {
    const std::vector<T> p = softmax_of_row(logits, row, s.experts);
    const size_t first = static_cast<size_t>(row) * k;
    T sum = 0;
    for (size_t c = first; c < first + k; ++c)
      if (slots[c] >= 0) sum += weights[c] = p[static_cast<size_t>(slots[c]) / static_cast<size_t>(s.capacity)];
    if (s.top_k == 1) continue;
    constexpr double kLeast = std::numeric_limits<float>::epsilon();
    if (real(sum) < kLeast) sum = kLeast;
    for (size_t c = first; c < first + k; ++c) weights[c] /= sum;
  }
  return weights;
}

/// experts * sum of load * mean softmax
template <class T>
T balance(const RoutingSizes& s, const std::vector<T>& logits, const std::vector<double>& load) {
  T sum = 0;
  for (int64_t row = 0; row < s.rows; ++row) {
    const std::vector<T> p = softmax_of_row(logits, row, s.experts);
    for (size_t e = 0; e < p.size(); ++e) sum += load[e] * p[e];
  }
  return sum * static_cast<double>(s.experts) / static_cast<double>(s.rows);
}

/// Gradient of sum(dweights * weights) + coefficient * balance.
inline std::vector<double> route_gradient(const RoutingSizes& s, const std::vector<double>& logits,
                                          const std::vector<double>& slots, const std::vector<double>& load,
                                          const std::vector<double>& dweights, double coefficient) {
  std::vector<double> dlogits;
  const auto k = static_cast<size_t>(s.top_k);
  for (int64_t row = 0; row < s.rows; ++row) {
    const std::vector<double> p = softmax_of_row(logits, row, s.experts);
    std::vector<double> dp(p.size());
    for (size_t e = 0; e < p.size(); ++e)
      dp[e] = coefficient * load[e] * static_cast<double>(s.experts) / static_cast<double>(s.rows);
    const size_t first = static_cast<size_t>(row) * k;
    const auto expert = [&](size_t c) { return static_cast<size_t>(slots[c]) / static_cast<size_t>(s.capacity); };
    double sum = 0, mean = 0;
    for (size_t c = first; c < first + k; ++c)
      if (slots[c] >= 0) {
        sum += p[expert(c)];
        mean += dweights[c] * p[expert(c)];
      }
    constexpr double kLeast = std::numeric_limits<float>::epsilon();
    for (size_t c = first; c < first + k; ++c)
      if (slots[c] >= 0) {
        if (s.top_k == 1)
          dp[expert(c)] += dweights[c];
        else
          dp[expert(c)] += sum < kLeast ? dweights[c] / kLeast : (dweights[c] - mean / sum) / sum;
      }
    double all = 0;
    for (size_t e = 0; e < p.size(); ++e) all += p[e] * dp[e];
    for (size_t e = 0; e < p.size(); ++e) dlogits.push_back(p[e] * (dp[e] - all));
  }
  return dlogits;
}

/// Dispatched rows, [experts * capacity][columns].
template <class T>
std::vector<T> dispatch(const RoutingSizes& s, int64_t columns, const std::vector<T>& x,
                        const std::vector<double>& sources, const std::vector<double>& weights) {
  std::vector<T> to;
  for (const double source : sources)
    for (int64_t c = 0; c < columns; ++c) {
      const auto of = static_cast<int64_t>(source);
      to.push_back(of < 0 ? T(0)
                          : weights[static_cast<size_t>(of)] * x[static_cast<size_t>(of / s.top_k * columns + c)]);
    }
  return to;
}

/// Combines rows of [experts * capacity][columns].
template <class T, class W>
auto combine(const RoutingSizes& s, int64_t columns, const std::vector<T>& from, const std::vector<double>& slots,
             const std::vector<W>& weights) {
  std::vector<decltype(T() * W())> y(static_cast<size_t>(s.rows * columns));
  for (size_t c = 0; c < s.choices(); ++c)
    for (size_t i = 0; slots[c] >= 0 && i < static_cast<size_t>(columns); ++i)
      y[c / static_cast<size_t>(s.top_k) * static_cast<size_t>(columns) + i] +=
          weights[c] * from[static_cast<size_t>(slots[c]) * static_cast<size_t>(columns) + i];
  return y;
}

/// The gradient of each choice's weight.
inline std::vector<double> combine_weights_gradient(const RoutingSizes& s, int64_t columns,
                                                    const std::vector<double>& from, const std::vector<double>& slots,
                                                    const std::vector<double>& dy) {
  std::vector<double> dweights(s.choices());
  for (size_t c = 0; c < s.choices(); ++c)
    for (size_t i = 0; slots[c] >= 0 && i < static_cast<size_t>(columns); ++i)
      dweights[c] += from[static_cast<size_t>(slots[c]) * static_cast<size_t>(columns) + i] *
                     dy[c / static_cast<size_t>(s.top_k) * static_cast<size_t>(columns) + i];
  return dweights;
}

/// Rows a and b, weighted by the softmax of their scores [rows][2].
template <class A, class B, class S>
auto softmax_mix(int64_t rows, const std::vector<A>& a, const std::vector<B>& b, const std::vector<S>& scores) {
  std::vector<decltype(A() * B() * S())> y;
  const size_t columns = a.size() / static_cast<size_t>(rows);
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<S> share = softmax_of_row(scores, static_cast<int64_t>(i / columns), 2);
    y.push_back(share[0] * a[i] + share[1] * b[i]);
  }
  return y;
}

}  // namespace ct::reference
