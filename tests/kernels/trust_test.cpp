#include "trust.h"

#include <array>
#include <cmath>

#include "buffer.h"

namespace ct::kernels {
namespace {

/// Of values in the order that the header promises.
double square_sum(const std::vector<float>& values) {
  std::array<double, 256> a = {};
  for (size_t e = 0; e < values.size(); ++e) a[e % 256] = std::fma(double{values[e]}, double{values[e]}, a[e % 256]);
  double sum = 0;
  for (size_t warp = 0; warp < 8; ++warp) {
    for (size_t distance = 16; distance > 0; distance /= 2)
      for (size_t i = 0; i < distance; ++i) a[32 * warp + i] += a[32 * warp + i + distance];
    sum = warp == 0 ? a[0] : sum + a[32 * warp];
  }
  return sum;
}

/// Chunks of a tensor of n elements, with its moments.
struct Moments {
  explicit Moments(size_t n)
      : n(n), p(numbers(n, 1)), g(numbers(n, 2)), m(numbers(n, 3)), v(numbers(n, 4)), masters(p), grads(g), exp_avg(m) {
    for (float& x : v) x = x * x;
    exp_avg_sq = std::make_unique<Buffer<float>>(v);
  }
  size_t n;
  std::vector<float> p, g, m, v;
  Buffer<float> masters, grads, exp_avg;
  std::unique_ptr<Buffer<float>> exp_avg_sq;
};

TEST(LambMoments, GivesThePromisedBits) {
  Moments t(4096 + 4096 + 33);
  const Operand<StepScalars> scalars(1, StepScalars{.grad_scale = 0.37, .coefficients = {0.9, 0.999, 1}});
  const std::array<size_t, 4> cuts{0, 4096, 8192, t.n};
  Operand<MomentsChunk> chunks;
  for (size_t i = 0; i < 3; ++i)
    chunks.push_back({.masters = t.masters.data() + cuts[i],
                      .grads = t.grads.data() + cuts[i],
                      .exp_avg = t.exp_avg.data() + cuts[i],
                      .exp_avg_sq = t.exp_avg_sq->data() + cuts[i],
                      .n = static_cast<int64_t>(cuts[i + 1] - cuts[i]),
                      .sum = static_cast<int64_t>(2 - i),
                      .weight_decay = 0.1});
  Buffer<double> weights(3), updates(3);
  ASSERT_EQ(lamb_moments({.chunks = chunks.data(),
                          .count = 3,
                          .eps = 1e-6,
                          .scalars = scalars.data(),
                          .weight_sums = weights.data(),
                          .update_sums = updates.data()},
                         nullptr),
            cudaSuccess);
  std::vector<float> u(t.n);
  for (size_t i = 0; i < t.n; ++i) {
    const float g = t.g[i] * 0.37f;
    const float m = std::fma(0.9f, t.m[i], static_cast<float>(1 - 0.9) * g);
    const float v = std::fma(0.999f, t.v[i], static_cast<float>(1 - 0.999) * (g * g));
    u[i] = std::fma(0.1f, t.p[i], m / (std::sqrt(v) + 1e-6f));
    ASSERT_EQ(t.exp_avg[i], m) << i;
    ASSERT_EQ((*t.exp_avg_sq)[i], v) << i;
  }
  for (size_t i = 0; i < 3; ++i) {
    const auto part = [&](const std::vector<float>& of) {
      return std::vector<float>(of.begin() + static_cast<ptrdiff_t>(cuts[i]),
                                of.begin() + static_cast<ptrdiff_t>(cuts[i + 1]));
    };
    EXPECT_EQ(weights.at(2 - i), square_sum(part(t.p)));
    EXPECT_EQ(updates.at(2 - i), square_sum(part(u)));
  }
}

}  // namespace
}  // namespace ct::kernels
