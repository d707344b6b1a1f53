#include "device/cpu/kernels/optimizer.h"

#include <thread>

#include "device/cpu/isa.h"
#include "device/cpu/kernels/grad_norm.h"
#include "device/cpu/kernels/testing.h"
#include "device/cpu/kernels/tree_sum.h"
#include "selftest/reference/optimizer.h"

namespace ct::cpu {
namespace {

class Update : public KernelTest {};
CT_KERNEL_SUITE(Update);

constexpr size_t kN = 1037;

float from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

struct Moments {
  float *exp_avg, *exp_avg_sq;
};
AdamArgs adam_args(int64_t n, const float* grads, float* params, Moments moments, uint16_t* half, int step,
                   bool decoupled) {
  const double b1 = 0.8, b2 = 0.999;
  return {{n, grads, params, half, /*learning_rate=*/1e-2f, /*weight_decay=*/0.1f, /*gradient_scale=*/0.5f},
          moments.exp_avg,
          moments.exp_avg_sq,
          static_cast<float>(b1),
          static_cast<float>(1 - b1),
          static_cast<float>(b2),
          static_cast<float>(1 - b2),
          /*eps=*/1e-8f,
          static_cast<float>(1 / (1 - std::pow(b1, step))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(b2, step))),
          decoupled};
}

TEST_P(Update, AdamFollowsTheFormula) {
  for (const bool decoupled : {true, false}) {
    auto p = normal(kN, 1);
    std::vector<double> m(kN), v(kN);
    Buffer<float> params(p), exp_avg(m), exp_avg_sq(v);
    Buffer<uint16_t> half(kN);
    for (int step = 1; step <= 20; ++step) {
      const auto g = normal(kN, 100 + step);
      Buffer<float> grads(g);
      adam(adam_args(kN, grads, params, {exp_avg, exp_avg_sq}, half, step, decoupled));
      for (size_t i = 0; i < kN; ++i) {
        const double scaled = 0.5 * g[i] + (decoupled ? 0 : 0.1 * p[i]);
        m[i] = 0.8 * m[i] + 0.2 * scaled;
        v[i] = 0.999 * v[i] + 0.001 * scaled * scaled;
        const double u = m[i] / (1 - std::pow(0.8, step)) / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8);
        p[i] -= 1e-2 * (u + (decoupled ? 0.1 * p[i] : 0));
      }
    }
    for (size_t i = 0; i < kN; ++i) {
      ASSERT_NEAR(params[i], p[i], 2e-6) << i;
      ASSERT_NEAR(exp_avg[i], m[i], 1e-6);
      ASSERT_NEAR(exp_avg_sq[i], v[i], 1e-6);
      ASSERT_NEAR(from_bf16(half[i]), params[i], std::abs(params[i]) / 256);
    }
    EXPECT_TRUE(params.intact() && exp_avg.intact() && exp_avg_sq.intact() && half.intact());
  }
}

TEST_P(Update, SameBitsWhereverTheRangeIsCut) {
  const auto p = normal(kN, 1), g = normal(kN, 2), v = normal(kN, 3);
  Buffer<float> grads(g), whole(p), whole_m(g), whole_v(v), parts(p), parts_m(g), parts_v(v);
  for (size_t i = 0; i < kN; ++i) whole_v[i] = parts_v[i] = std::abs(whole_v[i]);
  Buffer<uint16_t> whole_half(kN), parts_half(kN);
  adam(adam_args(kN, grads, whole, {whole_m, whole_v}, whole_half, 3, true));
  for (const auto& [begin, end] : {std::pair<int, int>{0, 1}, {1, 7}, {7, 300}, {300, 301}, {301, int{kN}}})
    adam(adam_args(end - begin, grads + begin, parts + begin, {parts_m + begin, parts_v + begin}, parts_half + begin, 3,
                   true));
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), kN * 4), 0);
  EXPECT_EQ(std::memcmp(whole_m.data(), parts_m.data(), kN * 4), 0);
  EXPECT_EQ(std::memcmp(whole_v.data(), parts_v.data(), kN * 4), 0);
  EXPECT_EQ(std::memcmp(whole_half.data(), parts_half.data(), kN * 2), 0);
}

/// Over several steps, in double; moments in the order of RmsPropArgs.
TEST_P(Update, RmsPropFollowsTheFormula) {
  for (const bool centered : {false, true})
    for (const bool momentum : {false, true}) {
      auto p = normal(kN, 1);
      std::vector<reference::RmsPropElement> expected;
      for (const double x : p) expected.push_back({x, 0, 0, 0});
      const std::vector<double> zeros(kN);
      Buffer<float> params(p), square(zeros), buffer(zeros), mean(zeros);
      Buffer<uint16_t> half(kN);
      for (int step = 1; step <= 20; ++step) {
        const auto g = normal(kN, 100 + step);
        Buffer<float> grads(g);
        rmsprop({{kN, grads, params, half, /*learning_rate=*/1e-2f, /*weight_decay=*/0.1f, /*gradient_scale=*/0.5f},
                 square,
                 momentum ? buffer.data() : nullptr,
                 centered ? mean.data() : nullptr,
                 /*alpha=*/0.9f,
                 /*one_minus_alpha=*/0.1f,
                 /*eps=*/1e-6f,
                 /*momentum=*/0.5f});
        const reference::RmsPropOptions o{1e-2, 0.9, 1e-6, 0.1, momentum ? 0.5 : 0, centered};
        for (size_t i = 0; i < kN; ++i) expected[i] = reference::rmsprop(o, expected[i], 0.5 * g[i]);
      }
      for (size_t i = 0; i < kN; ++i) {
        ASSERT_NEAR(params[i], expected[i].p, 2e-5) << i;
        ASSERT_NEAR(square[i], expected[i].square_avg, 1e-6);
        ASSERT_NEAR(mean[i], centered ? expected[i].grad_avg : 0, 1e-6);
        ASSERT_NEAR(from_bf16(half[i]), params[i], std::abs(params[i]) / 256);
      }
      EXPECT_TRUE(params.intact() && square.intact() && buffer.intact() && mean.intact() && half.intact());
    }
}

/// What a kernel does to parameters and two states, whole and cut into ranges: `run` is called with the first element
/// and the number of a range, `formula` with an element's number, its parameter, its states and its gradient.
struct Elements {
  std::vector<double> p, first, second;
};
template <class Run, class Formula>
void expect_formula_wherever_it_is_cut(Run run, Formula formula) {
  Elements expected{normal(kN, 1), std::vector<double>(kN), std::vector<double>(kN)};
  Buffer<float> whole[3] = {Buffer<float>(expected.p), Buffer<float>(expected.first), Buffer<float>(expected.second)};
  Buffer<float> parts[3] = {Buffer<float>(expected.p), Buffer<float>(expected.first), Buffer<float>(expected.second)};
  Buffer<uint16_t> whole_half(kN), parts_half(kN);
  for (int step = 1; step <= 20; ++step) {
    const auto g = normal(kN, 100 + static_cast<uint32_t>(step));
    Buffer<float> grads(g), grads_of_parts(g);
    run(0, int64_t{kN}, grads.data(), whole, whole_half.data());
    for (const auto& [begin, end] : {std::pair<int, int>{0, 1}, {1, 7}, {7, 300}, {300, 301}, {301, int{kN}}})
      run(begin, int64_t{end - begin}, grads_of_parts.data(), parts, parts_half.data());
    for (size_t i = 0; i < kN; ++i) formula(expected.p[i], expected.first[i], expected.second[i], 0.5 * g[i]);
    EXPECT_EQ(std::memcmp(grads.data(), grads_of_parts.data(), kN * 4), 0);
  }
  for (size_t i = 0; i < kN; ++i) {
    ASSERT_NEAR(whole[0][i], expected.p[i], 2e-5) << i;
    ASSERT_NEAR(whole[1][i], expected.first[i], 2e-5) << i;
    ASSERT_NEAR(whole[2][i], expected.second[i], 2e-5) << i;
    ASSERT_NEAR(from_bf16(whole_half[i]), whole[0][i], std::abs(whole[0][i]) / 256);
  }
  for (int k = 0; k < 3; ++k) EXPECT_EQ(std::memcmp(whole[k].data(), parts[k].data(), kN * 4), 0) << k;
  EXPECT_EQ(std::memcmp(whole_half.data(), parts_half.data(), kN * 2), 0);
}

UpdateArgs part_of(int64_t begin, int64_t n, const float* grads, Buffer<float>* states, uint16_t* half) {
  return {.n = n,
          .grads = grads + begin,
          .params = states[0].data() + begin,
          .bf16_params = half + begin,
          .learning_rate = 1e-2f,
          .weight_decay = 0.1f,
          .gradient_scale = 0.5f};
}

TEST_P(Update, LionFollowsTheFormula) {
  expect_formula_wherever_it_is_cut(
      [](int64_t begin, int64_t n, float* grads, Buffer<float>* states, uint16_t* half) {
        lion({part_of(begin, n, grads, states, half), states[1].data() + begin, 0.9f, 0.1f, 0.99f, 0.01f});
      },
      [](double& p, double& m, double&, double g) {
        const auto e = reference::lion({1e-2, 0.9, 0.99, 0.1}, {p, m}, g);
        p = e.p, m = e.m;
      });
}

TEST_P(Update, LionLeavesAloneWhatNoGradientReaches) {
  const std::vector<double> zeros(kN);
  Buffer<float> params(normal(kN, 1)), before(normal(kN, 1)), m(zeros), grads(zeros);
  lion({{.n = kN,
         .grads = grads,
         .params = params,
         .bf16_params = nullptr,
         .learning_rate = 1,
         .weight_decay = 0,
         .gradient_scale = 1},
        m,
        0.9f,
        0.1f,
        0.99f,
        0.01f});
  EXPECT_EQ(std::memcmp(params.data(), before.data(), kN * 4), 0);
}

TEST_P(Update, AdagradFollowsTheFormula) {
  expect_formula_wherever_it_is_cut(
      [](int64_t begin, int64_t n, float* grads, Buffer<float>* states, uint16_t* half) {
        adagrad({part_of(begin, n, grads, states, half), states[1].data() + begin, /*eps=*/1e-6f, /*rate_factor=*/1});
      },
      [](double& p, double& sum, double&, double g) {
        const auto e = reference::adagrad({1e-2, 1e-6, 0.1}, {p, sum}, g);
        p = e.p, sum = e.sum;
      });
}

TEST_P(Update, LarsFollowsTheFormula) {
  for (const bool nesterov : {false, true})
    expect_formula_wherever_it_is_cut(
        [=](int64_t begin, int64_t n, float* grads, Buffer<float>* states, uint16_t* half) {
          lars({part_of(begin, n, grads, states, half), states[1].data() + begin, 0.5f, /*trust=*/0.25f, nesterov});
        },
        [=](double& p, double& buffer, double&, double g) {
          const auto e = reference::lars({1e-2, 0.5, 0.1, nesterov}, 0.25, {p, buffer}, g);
          p = e.p, buffer = e.buffer;
        });
}

TEST_P(Update, LambFollowsTheFormulaInTwoPasses) {
  const reference::LambOptions o{0.8, 0.999, 1e-3, 0.1};
  expect_formula_wherever_it_is_cut(
      [](int64_t begin, int64_t n, float* grads, Buffer<float>* states, uint16_t* half) {
        Buffer<float> updates(std::vector<double>(static_cast<size_t>(n)));
        double sums[2], wanted[2];
        const UpdateArgs part = part_of(begin, n, grads, states, half);
        float *const m = states[1].data() + begin, *const v = states[2].data() + begin;
        sum_of_squares(part.params, n, &wanted[0]);
        lamb_moments({part, m, v, &sums[0], &sums[1], 0.8f, 0.2f, 0.999f, 0.001f, 1e-3f});
        for (int64_t i = 0; i < n; ++i)
          updates[static_cast<size_t>(i)] = std::fma(0.1f, part.params[i], m[i] / (std::sqrt(v[i]) + 1e-3f));
        sum_of_squares(updates, n, &wanted[1]);
        ASSERT_EQ(sums[0], wanted[0]);
        ASSERT_NEAR(sums[1], wanted[1], 1e-6 * (1 + wanted[1]));  // not every instruction set fuses what it updates by
        lamb({part, m, v, 1e-3f, /*trust=*/0.5f});
      },
      [=](double& p, double& m, double& v, double g) {
        const auto e = reference::lamb_moments(o, {p, m, v}, g);
        m = e.m, v = e.v;
        p -= 1e-2 * 0.5 * reference::lamb_update(o, e);
      });
}

TEST_P(Update, MuonFollowsTheFormula) {
  for (const bool nesterov : {false, true})
    expect_formula_wherever_it_is_cut(
        [=](int64_t begin, int64_t n, float* grads, Buffer<float>* states, uint16_t* half) {
          muon_momentum({.n = n,
                         .grads = grads + begin,
                         .momentum_buffer = states[1].data() + begin,
                         .gradient_scale = 0.5f,
                         .rest = 0.05f,
                         .nesterov = nesterov});
          muon(part_of(begin, n, grads, states, half));  // as if it were orthogonal
        },
        [=](double& p, double& buffer, double&, double g) {
          const auto e = reference::muon_momentum(0.95, nesterov, buffer, g);
          buffer = e.buffer;
          p -= 1e-2 * (e.direction + 0.1 * p);
        });
}

TEST_P(Update, ScaledSum) {
  const auto x = normal(kN, 1), y = normal(kN, 2);
  Buffer<float> from(x), to(y);
  scaled_sum(0.3f, from, -1.7f, to, kN);
  for (size_t i = 0; i < kN; ++i) ASSERT_NEAR(to[i], 0.3 * x[i] - 1.7 * y[i], 2e-6) << i;
  EXPECT_TRUE(to.intact());
}

TEST_P(Update, EmaFollowsTheFormulaWhereverTheRangeIsCut) {
  const float rest = 0.01f;
  std::vector<double> expected = normal(kN, 1);
  Buffer<float> whole(expected), parts(expected);
  for (int step = 1; step <= 20; ++step) {
    const auto p = normal(kN, 100 + static_cast<uint32_t>(step));
    Buffer<float> params(p);
    ema({.n = kN, .params = params, .average = whole, .rest = rest});
    for (const auto& [begin, end] : {std::pair<int, int>{0, 1}, {1, 7}, {7, 300}, {300, 301}, {301, int{kN}}})
      ema({.n = end - begin, .params = params + begin, .average = parts + begin, .rest = rest});
    for (size_t i = 0; i < kN; ++i) {
      expected[i] = reference::ema(1 - rest, expected[i], p[i]);
      ASSERT_NEAR(whole[i], expected[i], 1e-6) << i;
    }
    EXPECT_TRUE(params.intact());
  }
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), kN * 4), 0);
  EXPECT_TRUE(whole.intact() && parts.intact());
}

TEST_P(Update, Bf16CopyRoundsToNearestEven) {
  const std::vector<uint32_t> bits = {0x3F800000, 0x3F807FFF, 0x3F808000, 0x3F808001, 0x3F818000, 0xBF818000,
                                      0x7F7FFFFF, 0x00000000, 0x80000000, 0x3F7FFFFF, 0x7FFFFFFF};
  const std::vector<uint16_t> expected = {0x3F80, 0x3F80, 0x3F80, 0x3F81, 0x3F82, 0xBF82,
                                          0x7F80, 0x0000, 0x8000, 0x3F80, 0x7FFF};
  Buffer<float> params(bits.size()), grads(std::vector<double>(bits.size(), 0.0));
  std::memcpy(params.data(), bits.data(), bits.size() * 4);
  Buffer<uint16_t> half(bits.size());
  sgd({{.n = static_cast<int64_t>(bits.size()),
        .grads = grads,
        .params = params,
        .bf16_params = half,
        .learning_rate = 0,
        .weight_decay = 0,
        .gradient_scale = 1},
       /*momentum_buffer=*/nullptr,
       /*momentum=*/0,
       /*nesterov=*/false});
  for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(half[i], expected[i]) << i;
}

TEST_P(Update, SumOfSquaresByChunks) {
  for (const size_t n : {size_t{1}, size_t{4096}, size_t{4097}, size_t{9001}}) {
    const auto x = normal(n, 5);
    Buffer<float> values(x);
    const size_t chunks = (n + 4095) / 4096;
    Buffer<double> sums(chunks);
    sum_of_squares(values, static_cast<int64_t>(n), sums);
    for (size_t c = 0; c < chunks; ++c) {
      double expected = 0;
      for (size_t i = c * 4096; i < std::min(n, (c + 1) * 4096); ++i) expected += x[i] * x[i];
      EXPECT_NEAR(sums[c], expected, 1e-12 * expected);
    }
    EXPECT_TRUE(sums.intact());
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      values[n - 1] = bad;
      sum_of_squares(values, static_cast<int64_t>(n), sums);
      EXPECT_FALSE(std::isfinite(sums[chunks - 1]));
      if (chunks > 1) {
        EXPECT_TRUE(std::isfinite(sums[0]));
      }
    }
  }
}

TEST_P(Update, TreeAddMergesFromTheLowestLevel) {
  for (const size_t levels : {size_t{0}, size_t{1}, size_t{3}}) {
    const auto x = normal(kN, 1);
    Buffer<float> leaf(x), out(kN);
    std::vector<std::vector<float>> values;
    std::vector<const float*> pointers;
    for (size_t l = 0; l < levels; ++l) {
      const auto v = normal(kN, static_cast<uint32_t>(10 + l), std::pow(100.0, l));
      values.emplace_back(v.begin(), v.end());
    }
    for (const auto& v : values) pointers.push_back(v.data());
    tree_add(leaf, pointers, out, kN);
    for (size_t i = 0; i < kN; ++i) {
      float expected = leaf[i];
      for (const auto& v : values) expected = v[i] + expected;
      ASSERT_EQ(out[i], expected);
    }
    EXPECT_TRUE(out.intact());
    tree_add(leaf, pointers, leaf, kN);
    EXPECT_EQ(std::memcmp(leaf.data(), out.data(), kN * 4), 0);
  }
}

TEST_P(Update, DenormalsBecomeZero) {
  // A thread of its own: the setting must not reach the other tests.
  std::thread([] {
    flush_denormals_in_this_thread();
    Buffer<float> tiny(std::vector<double>(kN, 1e-40)), zeros(std::vector<double>(kN, 0.0)), out(kN);
    Buffer<float> small(std::vector<double>(kN, 1.5e-38)), negative(std::vector<double>(kN, -1.2e-38)), difference(kN);
    tree_add(tiny, std::vector<const float*>{zeros.data()}, out, kN);
    tree_add(small, std::vector<const float*>{negative.data()}, difference, kN);
    uint32_t bits = 0;
    for (size_t i = 0; i < kN; ++i) {
      std::memcpy(&bits, &out[i], 4);
      ASSERT_EQ(bits, 0u) << "a denormal operand";
      std::memcpy(&bits, &difference[i], 4);
      ASSERT_EQ(bits, 0u) << "a denormal result";
    }
  }).join();
}

}  // namespace
}  // namespace ct::cpu
