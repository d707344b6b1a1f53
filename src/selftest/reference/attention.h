// Scalar references of attention and sequence pooling. Dense rows, no pads.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "selftest/reference/scalar.h"

namespace ct::reference {

struct AttentionSizes {
  int64_t n, tokens, heads, width;
  bool mask_diagonal;
  enum Part : uint8_t { query, key, value };
  /// The index of an element in qkv.
  size_t in_qkv(Part part, int64_t image, int64_t head, int64_t token, int64_t d) const {
    return static_cast<size_t>((((image * tokens + token) * 3 + part) * heads + head) * width + d);
  }
  size_t in_y(int64_t image, int64_t head, int64_t token, int64_t d) const {
    return static_cast<size_t>(((image * tokens + token) * heads + head) * width + d);
  }
  size_t pair(int64_t i, int64_t j) const { return static_cast<size_t>(i * tokens + j); }
};

/// Logits and weights of one image and head, [tokens][tokens]; 0 for masked pairs.
template <class T>
struct AttentionWeights {
  std::vector<T> logits, p, log_sum_exp;
};

template <class T>
AttentionWeights<T> attention_weights(const AttentionSizes& s, const std::vector<T>& qkv, T scale, int64_t image,
                                      int64_t head) {
  AttentionWeights<T> w{std::vector<T>(s.pair(s.tokens, 0)), std::vector<T>(s.pair(s.tokens, 0)), {}};
  for (int64_t i = 0; i < s.tokens; ++i) {
    const auto masked = [&](int64_t j) { return s.mask_diagonal && i == j; };
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < s.tokens; ++j) {
      if (masked(j)) continue;
      T sum = 0;
      for (int64_t d = 0; d < s.width; ++d)
        sum += qkv[s.in_qkv(s.query, image, head, i, d)] * qkv[s.in_qkv(s.key, image, head, j, d)];
      w.logits[s.pair(i, j)] = sum * scale;
      most = std::max(most, real(w.logits[s.pair(i, j)]));
    }
    T sum = 0;
    for (int64_t j = 0; j < s.tokens; ++j)
      if (!masked(j)) sum += w.p[s.pair(i, j)] = std::exp(w.logits[s.pair(i, j)] - most);
    for (int64_t j = 0; j < s.tokens; ++j) w.p[s.pair(i, j)] /= sum;
    w.log_sum_exp.push_back(most + std::log(sum));
  }
  return w;
}

template <class T>
struct AttentionResult {
  std::vector<T> y, log_sum_exp;
};

template <class T>
AttentionResult<T> attention(const AttentionSizes& s, const std::vector<T>& qkv, T scale) {
  AttentionResult<T> result{std::vector<T>(qkv.size() / 3), {}};
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t h = 0; h < s.heads; ++h) {
      const AttentionWeights<T> w = attention_weights(s, qkv, scale, n, h);
      for (int64_t i = 0; i < s.tokens; ++i)
        for (int64_t j = 0; j < s.tokens; ++j)
          for (int64_t d = 0; d < s.width; ++d)
            result.y[s.in_y(n, h, i, d)] += w.p[s.pair(i, j)] * qkv[s.in_qkv(s.value, n, h, j, d)];
      result.log_sum_exp.insert(result.log_sum_exp.end(), w.log_sum_exp.begin(), w.log_sum_exp.end());
    }
  return result;
}

/// Gradients of one image and head, for each pair of tokens: of the weight and of the logit.
struct AttentionPairs {
  std::vector<double> dp, dlogits;
};
inline AttentionPairs attention_pairs(const AttentionSizes& s, const std::vector<double>& qkv,
                                      const AttentionWeights<double>& w, const std::vector<double>& dy, int64_t image,
                                      int64_t head) {
  AttentionPairs g{std::vector<double>(w.p.size()), std::vector<double>(w.p.size())};
  for (int64_t i = 0; i < s.tokens; ++i) {
    double mean = 0;
    for (int64_t j = 0; j < s.tokens; ++j) {
      double& dp = g.dp[s.pair(i, j)];
      for (int64_t d = 0; d < s.width; ++d)
        dp += dy[s.in_y(image, head, i, d)] * qkv[s.in_qkv(s.value, image, head, j, d)];
      mean += w.p[s.pair(i, j)] * dp;
    }
    for (int64_t j = 0; j < s.tokens; ++j) g.dlogits[s.pair(i, j)] = w.p[s.pair(i, j)] * (g.dp[s.pair(i, j)] - mean);
  }
  return g;
}

struct AttentionGradients {
  std::vector<double> dqkv;
  double dtemperature = 0;  // of the scale's logarithm
};
inline AttentionGradients attention_gradients(const AttentionSizes& s, const std::vector<double>& qkv, double scale,
                                              const std::vector<double>& dy) {
  AttentionGradients g{std::vector<double>(qkv.size())};
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t h = 0; h < s.heads; ++h) {
      const AttentionWeights<double> w = attention_weights(s, qkv, scale, n, h);
      const AttentionPairs pairs = attention_pairs(s, qkv, w, dy, n, h);
      for (int64_t i = 0; i < s.tokens; ++i)
        for (int64_t j = 0; j < s.tokens; ++j) {
          const size_t ij = s.pair(i, j);
          g.dtemperature += pairs.dlogits[ij] * w.logits[ij];
          for (int64_t d = 0; d < s.width; ++d) {
            const size_t q = s.in_qkv(s.query, n, h, i, d), k = s.in_qkv(s.key, n, h, j, d);
            g.dqkv[q] += scale * pairs.dlogits[ij] * qkv[k];
            g.dqkv[k] += scale * pairs.dlogits[ij] * qkv[q];
            g.dqkv[s.in_qkv(s.value, n, h, j, d)] += w.p[ij] * dy[s.in_y(n, h, i, d)];
          }
        }
    }
  return g;
}

/// The softmax of an image's scores.
template <class T>
std::vector<T> softmax(const T* scores, int64_t n) {
  double most = real(scores[0]);
  for (int64_t i = 1; i < n; ++i) most = std::max(most, real(scores[i]));
  std::vector<T> p;
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += p.emplace_back(std::exp(scores[i] - most));
  for (T& x : p) x /= sum;
  return p;
}

/// y [n][channels], x [n][tokens][channels], score [n][tokens].
template <class T>
std::vector<T> sequence_pool(int64_t n, int64_t tokens, int64_t channels, const std::vector<T>& x,
                             const std::vector<T>& score) {
  std::vector<T> y(static_cast<size_t>(n * channels));
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<T> p = softmax(score.data() + i * tokens, tokens);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t c = 0; c < channels; ++c)
        y[static_cast<size_t>(i * channels + c)] +=
            p[static_cast<size_t>(t)] * x[static_cast<size_t>((i * tokens + t) * channels + c)];
  }
  return y;
}

struct SequencePoolGradients {
  std::vector<double> dx, dscore;
};
inline SequencePoolGradients sequence_pool_gradients(int64_t n, int64_t tokens, int64_t channels,
                                                     const std::vector<double>& x, const std::vector<double>& score,
                                                     const std::vector<double>& dy) {
  SequencePoolGradients result;
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<double> p = softmax(score.data() + i * tokens, tokens);
    std::vector<double> g;
    double mean = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) {
        const double d = dy[static_cast<size_t>(i * channels + c)];
        sum += x[static_cast<size_t>((i * tokens + t) * channels + c)] * d;
        result.dx.push_back(p[static_cast<size_t>(t)] * d);
      }
      g.push_back(sum);
      mean += p[static_cast<size_t>(t)] * sum;
    }
    for (size_t t = 0; t < g.size(); ++t) result.dscore.push_back(p[t] * (g[t] - mean));
  }
  return result;
}

}  // namespace ct::reference
