#include "trust.h"

#include <array>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "optimizer.h"
#include "run.h"

namespace ct::kernels {
namespace {

StepScalars some_step(int64_t skip = 0) {
  return {.applied = 3, .grad_scale = 0.37, .lr = 0.5, .coefficients = {0.9, 0.999, 1}, .skip = skip};
}

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
  for (const int64_t skip : {0, 1})
    on_host::in_all_orders([&] {
      Moments t(4096 + 4096 + 33);
      const Operand<StepScalars> scalars(1, some_step(skip));
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
      for (size_t i = 0; i < 3; ++i) weights.at(i) = updates.at(i) = -1;
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
        ASSERT_EQ(t.exp_avg[i], skip ? t.m[i] : m) << i;
        ASSERT_EQ((*t.exp_avg_sq)[i], skip ? t.v[i] : v) << i;
      }
      EXPECT_EQ(t.masters.values(), t.p);
      for (size_t i = 0; i < 3; ++i) {
        const auto part = [&](const std::vector<float>& of) {
          return std::vector<float>(of.begin() + static_cast<ptrdiff_t>(cuts[i]),
                                    of.begin() + static_cast<ptrdiff_t>(cuts[i + 1]));
        };
        EXPECT_EQ(weights.at(2 - i), skip ? -1 : square_sum(part(t.p)));
        EXPECT_EQ(updates.at(2 - i), skip ? -1 : square_sum(part(u)));
      }
    });
}

TEST(TrustRatios, AreThoseOfNormsAndLimits) {
  const Operand<StepScalars> scalars(1, some_step());
  const Operand<double> weights = {4, 5, 16, 0, 1e6}, updates = {1, 3, 9, 1, 1e-6};
  const Operand<TrustTensor> tensors = {{0, 2, 0.1, 1, 1},  {2, 3, 0.1, 1, 1}, {3, 4, 0.1, 1, 1},
                                        {4, 5, 0, 0.5f, 1}, {0, 2, 0.1, 1, 0}, {5, 5, 0.1, 1, 1}};
  const auto run = [&](bool of_gradients, bool by_rate, double most) {
    Buffer<float> ratios(tensors.size());
    EXPECT_EQ(trust_ratios({.tensors = tensors.data(),
                            .count = static_cast<int64_t>(tensors.size()),
                            .weight_sums = weights.data(),
                            .update_sums = updates.data(),
                            .scalars = scalars.data(),
                            .coefficient = 0.5,
                            .eps = 0.25,
                            .least = 0.125,
                            .most = most,
                            .of_gradients = of_gradients,
                            .by_rate = by_rate,
                            .ratios = ratios.data()},
                           nullptr),
              cudaSuccess);
    return ratios.values();
  };
  const auto f = [](double x) { return static_cast<float>(x); };
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(run(false, false, 10),
            (std::vector<float>{f(0.5 * 3 / (2 + 0.1 * 3 + 0.25)), f(0.5 * 4 / (3 + 0.1 * 4 + 0.25)), 1, 10, 1, 1}));
  const std::vector<float> of_gradients = run(true, true, inf);
  EXPECT_EQ(of_gradients[0], f(0.5 * 3 / (2 * 0.37 + 0.1 * 3 + 0.25) / (0.5 * 1)));
  EXPECT_EQ(of_gradients[3], f(0.5 * 1000 / (std::sqrt(1e-6) * 0.37 + 0.25) / (0.5 * 0.5)));
}

}  // namespace
}  // namespace ct::kernels
