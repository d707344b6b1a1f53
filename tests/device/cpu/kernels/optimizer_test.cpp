#include "device/cpu/kernels/optimizer.h"

#include <thread>

#include "device/cpu/isa.h"
#include "device/cpu/kernels/grad_norm.h"
#include "device/cpu/kernels/testing.h"
#include "device/cpu/kernels/tree_sum.h"
#include "reference/rules.h"

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

/// Weights and states of a rule, before a step.
struct Elements {
  std::vector<double> w = normal(kN, 1), g = normal(kN, 2), states[3] = {normal(kN, 3), normal(kN, 4), normal(kN, 5)};
  Elements() {
    for (size_t i = 0; i < kN; ++i) {
      states[0][i] = std::abs(states[0][i]) + 0.25f;
      states[1][i] = std::abs(states[1][i]), states[2][i] *= 0.125;
    }
    g[kN / 2] = states[0][kN / 2] = 0;  // what no gradient reached
  }
};
const StepScalars kScalars{.grad_scale = 0.5, .lr = 1e-2, .coefficients = {0.8, 0.999, 0.5, 0.25}};
constexpr float kTrust = 0.25f;

/// Weights, states and bf16 copy after the update of [0, cuts[0]), [cuts[0], cuts[1]) ...
template <class Rule>
struct Updated {
  Buffer<float> w, g, states[3];
  Buffer<uint16_t> half;
  Updated(const Rule& rule, const Elements& e, const std::vector<size_t>& cuts)
      : w(e.w),
        g(e.g),
        states{Buffer<float>(e.states[0]), Buffer<float>(e.states[1]), Buffer<float>(e.states[2])},
        half(kN) {
    const auto kept = rules::kept_states<Rule>(rule.form);
    size_t begin = 0;
    for (const size_t end : cuts) {
      UpdateArgs args{.rule = rule,
                      .n = static_cast<int64_t>(end - begin),
                      .grads = g + begin,
                      .params = w + begin,
                      .bf16_params = half + begin,
                      .weight_decay = 0.1,
                      .lr_scale = 0.5f,
                      .trust = &kTrust};
      for (size_t k = 0; k < kept.size(); ++k) args.states[k] = kept[k] ? states[k] + begin : nullptr;
      update(args, kScalars);
      begin = end;
    }
    EXPECT_TRUE(w.intact() && g.intact() && half.intact());
    for (const auto& state : states) EXPECT_TRUE(state.intact());
  }
};

TEST_P(Update, EveryRuleFollowsItsFormulaWhereverTheRangeIsCut) {
  scalar_rules::for_rules([]<class Rule, int kForm>(const Rule& rule, std::integral_constant<int, kForm>) {
    using scalar_rules::Register;
    const Elements e;
    Updated<Rule> whole(rule, e, {kN}), parts(rule, e, {1, 7, 300, 301, kN});
    EXPECT_EQ(std::memcmp(whole.w.data(), parts.w.data(), kN * 4), 0);
    for (size_t k = 0; k < 3; ++k)
      EXPECT_EQ(std::memcmp(whole.states[k].data(), parts.states[k].data(), kN * 4), 0) << k;
    EXPECT_EQ(std::memcmp(whole.half.data(), parts.half.data(), kN * 2), 0);

    constexpr size_t kStates = Rule::kStates.size();
    const auto formula =
        scalar_rules::Formula<Rule, kForm>::of(rule, rules::coefficients_in<Rule>(kScalars.coefficients));
    const auto step = scalar_rules::step_of<Rule>(kScalars, 0.1, 0.5f, kTrust);
    const float scale = Rule::kScalesGradients ? 0.5f : 1;
    for (size_t i = 0; i < kN; ++i) {
      typename Rule::template States<Register> states;
      auto* const values = reinterpret_cast<Register*>(&states);
      for (size_t k = 0; k < kStates; ++k) values[k] = Register(static_cast<float>(e.states[k][i]));
      Register w(static_cast<float>(e.w[i]));
      formula(step, Register(static_cast<float>(e.g[i]) * scale), w, states);
      ASSERT_NEAR(whole.w[i], w.v, 2e-6 * (1 + std::abs(w.v))) << i;  // not every instruction set fuses
      for (size_t k = 0; k < kStates; ++k) ASSERT_NEAR(whole.states[k][i], values[k].v, 2e-6) << i;
      ASSERT_NEAR(from_bf16(whole.half[i]), whole.w[i], std::abs(whole.w[i]) / 256);
    }
  });
}

TEST_P(Update, LionLeavesAloneWhatNoGradientReaches) {
  const std::vector<double> zeros(kN);
  Buffer<float> params(normal(kN, 1)), before(normal(kN, 1)), m(zeros), grads(zeros);
  update({.rule = rules::Lion(), .n = kN, .grads = grads, .params = params, .states = {m.data()}}, kScalars);
  EXPECT_EQ(std::memcmp(params.data(), before.data(), kN * 4), 0);
}

TEST_P(Update, LambMomentsAddSquaresAsNormsDo) {
  const Elements e;
  Buffer<float> w(e.w), g(e.g), m(e.states[1]), v(e.states[0]), updates(kN);
  double sums[2], wanted[2];
  lamb_moments({.n = kN,
                .grads = g,
                .params = w,
                .exp_avg = m,
                .exp_avg_sq = v,
                .weight_sum = &sums[0],
                .update_sum = &sums[1],
                .weight_decay = 0.1f,
                .eps = 1e-3},
               kScalars);
  for (size_t i = 0; i < kN; ++i) updates[i] = std::fma(0.1f, w[i], m[i] / (std::sqrt(v[i]) + 1e-3f));
  sum_of_squares(w, kN, &wanted[0]);
  sum_of_squares(updates, kN, &wanted[1]);
  EXPECT_EQ(sums[0], wanted[0]);
  EXPECT_NEAR(sums[1], wanted[1], 1e-6 * (1 + wanted[1]));  // not every instruction set fuses what it updates by
}

TEST_P(Update, MuonsMomentumFollowsTheFormula) {
  for (const bool nesterov : {false, true}) {
    const Elements e;
    Buffer<float> g(e.g), buffer(e.states[0]);
    muon_momentum(
        {.n = kN, .grads = g, .momentum_buffer = buffer, .gradient_scale = 0.5f, .rest = 0.05f, .nesterov = nesterov});
    for (size_t i = 0; i < kN; ++i) {
      const double scaled = 0.5 * e.g[i], b = e.states[0][i] + 0.05 * (scaled - e.states[0][i]);
      ASSERT_NEAR(buffer[i], b, 1e-6) << i;
      ASSERT_NEAR(g[i], nesterov ? b + 0.05 * (scaled - b) : b, 1e-6) << i;
    }
  }
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
      expected[i] += rest * (p[i] - expected[i]);
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
  update({.rule = rules::Sgd(),
          .n = static_cast<int64_t>(bits.size()),
          .grads = grads,
          .params = params,
          .bf16_params = half},
         {.grad_scale = 1, .lr = 0});
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
