#include "optimizer.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "buffer.h"
#include "reference/rules.h"

namespace ct::kernels {
namespace {

using namespace scalar_rules;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

StepScalars some_step() {
  return {.applied = 3,
          .grad_scale = 0.37,
          .lr = 1.3e-2,
          .coefficients = {0.9, 0.999, 1 - std::pow(0.9, 3), 1 - std::pow(0.999, 3)}};
}

std::vector<float> positive(std::vector<float> v) {
  for (float& x : v) x = std::fabs(x);
  return v;
}

/// A weight copy in one of three element types, or none.
struct Copy {
  enum class Kind { none, f32, bf16, f16 };
  Copy(Kind kind, size_t n, size_t shift)
      : kind(kind),
        f32(kind == Kind::f32 ? n : 0, shift),
        bf16(kind == Kind::bf16 ? n : 0, shift),
        f16(kind == Kind::f16 ? n : 0, shift) {}
  void* data() {
    switch (kind) {
      case Kind::none:
        return nullptr;
      case Kind::f32:
        return f32.data();
      case Kind::bf16:
        return bf16.data();
      case Kind::f16:
        return f16.data();
    }
    return nullptr;
  }
  Type type() const { return kind == Kind::bf16 ? Type::bf16 : kind == Kind::f16 ? Type::f16 : Type::f32; }
  void expect(size_t i, float master) const {
    if (kind == Kind::f32) {
      EXPECT_EQ(f32[i], master);
    }
    if (kind == Kind::bf16) {
      EXPECT_EQ(bf16[i], to_float(from_float<__nv_bfloat16>(master)));
    }
    if (kind == Kind::f16) {
      EXPECT_EQ(f16[i], to_float(from_float<__half>(master)));
    }
  }
  void expect_untouched() const {
    for (const auto& bytes : {f32.bytes(), bf16.bytes(), f16.bytes()})
      for (unsigned char byte : bytes) EXPECT_EQ(byte, 0xff);
  }
  Kind kind;
  Buffer<float> f32;
  Buffer<__nv_bfloat16> bf16;
  Buffer<__half> f16;
};

struct Case {
  size_t n, shift = 0;  // of the f32 operands
  Copy::Kind copy = Copy::Kind::none;
  size_t copy_shift = 0;
  double weight_decay = 0;
  float lr_scale = 1;
};

/// Odd sizes, several blocks, empty slices first, between and last; whole packs and lone elements; every kind of copy.
std::vector<Case> cases() {
  using enum Copy::Kind;
  return {{.n = 0},
          {.n = 1, .copy = bf16, .weight_decay = 0.1},
          {.n = 3, .shift = 1, .copy = f32},
          {.n = 0},
          {.n = 1024, .copy = bf16, .weight_decay = 0.2},
          {.n = 1023, .copy = f16, .weight_decay = 0.3, .lr_scale = 0.1f},
          {.n = 2050, .copy = f32, .weight_decay = 0.01},
          {.n = 1025, .shift = 3, .copy = bf16, .copy_shift = 1, .weight_decay = 0.05},
          {.n = 37, .copy = bf16, .copy_shift = 4},
          {.n = 38, .copy = bf16, .copy_shift = 2},
          {.n = 39, .copy = f32, .copy_shift = 1},
          {.n = 4},
          {.n = 0}};
}

/// The tensors of a case; `before` is what masters and states, which are positive, were.
struct Tensors {
  Tensors(const Case& c, uint32_t which)
      : n(c.n),
        before{numbers(n, 10 * which), positive(numbers(n, 10 * which + 1)), positive(numbers(n, 10 * which + 2)),
               positive(numbers(n, 10 * which + 4))},
        gradient(numbers(n, 10 * which + 3)),
        masters(before[0], c.shift),
        states{Buffer<float>(before[1], c.shift), Buffer<float>(before[2], c.shift), Buffer<float>(before[3], c.shift)},
        grads(gradient, c.shift),
        copy(c.copy, n, c.copy_shift) {}
  size_t n;
  std::vector<float> before[4], gradient;
  Buffer<float> masters, states[3], grads;
  Copy copy;
};
using AllTensors = std::vector<std::unique_ptr<Tensors>>;

AllTensors make(const std::vector<Case>& cases) {
  AllTensors all;
  for (const Case& c : cases) all.push_back(std::make_unique<Tensors>(c, static_cast<uint32_t>(all.size())));
  return all;
}

// ---- every rule in every form

/// Every slice is of a tensor of its own; their ratios go down.
float ratio_of(size_t slice) { return 2.0f / static_cast<float>(slice + 1); }

template <class Rule>
UpdateSlice slice_of(const Rule& rule, Tensors& t, const Case& c, size_t number) {
  UpdateSlice slice{.masters = t.masters.data(),
                    .grads = t.grads.data(),
                    .copy = t.copy.data(),
                    .copy_type = t.copy.type(),
                    .n = static_cast<int64_t>(t.n),
                    .weight_decay = c.weight_decay,
                    .lr_scale = c.lr_scale,
                    .tensor = static_cast<int32_t>(number)};
  const auto kept = rules::kept_states<Rule>(rule.form);
  for (size_t k = 0; k < kept.size(); ++k) slice.states[k] = kept[k] ? t.states[k].data() : nullptr;
  return slice;
}

template <class Rule>
cudaError_t run(const Rule& rule, AllTensors& all, const std::vector<Case>& cases, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  Operand<float> ratios;
  std::vector<UpdateSlice> slices;
  for (size_t i = 0; i < cases.size(); ++i) {
    ratios.push_back(ratio_of(i));
    slices.push_back(slice_of(rule, *all[i], cases[i], i));
  }
  return update({.rule = rule,
                 .slices = slices.data(),
                 .slice_count = static_cast<int>(slices.size()),
                 .scalars = scalars.data(),
                 .ratios = ratios.data()},
                nullptr);
}

/// What the formula promises, to the bit.
template <class Rule, int kForm>
void expect_promise(const Rule& rule, std::integral_constant<int, kForm>, const Tensors& t, const Case& c,
                    size_t number, const StepScalars& s) {
  constexpr size_t kStates = Rule::kStates.size();
  constexpr auto kKept = rules::kept_states<Rule>(kForm);
  const auto formula = Formula<Rule, kForm>::of(rule, rules::coefficients_in<Rule>(s.coefficients));
  const StepNumbers step = step_of<Rule>(s, c.weight_decay, c.lr_scale, Rule::kTrusted ? ratio_of(number) : 1);
  const float scale = Rule::kScalesGradients ? static_cast<float>(s.grad_scale) : 1;
  for (size_t i = 0; i < t.n; ++i) {
    typename Rule::template States<Register> states;
    auto* const values = reinterpret_cast<Register*>(&states);
    for (size_t k = 0; k < kStates; ++k) values[k] = Register(t.before[1 + k][i]);
    Register w(t.before[0][i]);
    formula(step, Register(t.gradient[i] * scale), w, states);
    ASSERT_EQ(t.masters[i], w.v) << i;
    for (size_t k = 0; k < 3; ++k)
      ASSERT_EQ(t.states[k][i], k < kStates && kKept[k] && Rule::kWritesStates ? values[k].v : t.before[1 + k][i])
          << i << " state " << k;
    ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, w.v));
  }
}

TEST(Update, GivesThePromisedBits) {
  for_rules([](const auto& rule, auto form) {
    AllTensors all = make(cases());
    for (auto& t : all)  // what no gradient reached
      if (t->n > 2) t->grads.at(2) = t->gradient[2] = t->states[0].at(2) = t->before[1][2] = 0;
    ASSERT_EQ(run(rule, all, cases(), some_step()), cudaSuccess);
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_NO_FATAL_FAILURE(expect_promise(rule, form, *all[i], cases()[i], i, some_step())) << "slice " << i;
  });
}

TEST(Update, TakesAnyNumberOfSlices) {
  for_rules([](const auto& rule, auto form) {
    for (const size_t count : {0u, 1u, 31u, 32u, 33u, 63u, 64u, 65u, 130u}) {
      const std::vector<Case> many(count, {.n = 5, .weight_decay = 0.5});
      AllTensors all = make(many);
      ASSERT_EQ(run(rule, all, many, some_step()), cudaSuccess);
      for (size_t i = 0; i < count; ++i)
        ASSERT_NO_FATAL_FAILURE(expect_promise(rule, form, *all[i], many[i], i, some_step())) << i << " of " << count;
    }
  });
}

TEST(Update, AnElementsBitsDoNotDependOnTheCut) {
  for_rules([](const auto& rule, auto) {
    const auto bytes = [&](const std::vector<size_t>& cuts) {
      Tensors t({.n = 3000}, 7);
      std::vector<UpdateSlice> slices;
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        UpdateSlice slice = slice_of(rule, t, {}, 0);
        slice.masters += cuts[i], slice.grads += cuts[i];
        for (float*& state : slice.states)
          if (state != nullptr) state += cuts[i];
        slice.n = static_cast<int64_t>(cuts[i + 1] - cuts[i]);
        slices.push_back(slice);
      }
      const Operand<StepScalars> scalars(1, some_step());
      const Operand<float> ratios(1, 0.5f);
      EXPECT_EQ(update({.rule = rule,
                        .slices = slices.data(),
                        .slice_count = static_cast<int>(slices.size()),
                        .scalars = scalars.data(),
                        .ratios = ratios.data()},
                       nullptr),
                cudaSuccess);
      std::vector<std::vector<unsigned char>> all{t.masters.bytes()};
      for (const auto& state : t.states) all.push_back(state.bytes());
      return all;
    };
    const auto whole = bytes({0, 3000});
    EXPECT_EQ(bytes({0, 1, 1000, 2999, 3000}), whole);
    EXPECT_EQ(bytes({0, 1024, 1027, 3000}), whole);
  });
}

TEST(Update, NotANumberStaysWithItsElement) {
  const Case c{.n = 9, .copy = Copy::Kind::bf16};
  for_rules([&]<class Rule>(const Rule& rule, auto) {
    if (!Rule::kReadsGradients) return;
    AllTensors all = make({c});
    all[0]->grads.at(5) = kNan;
    ASSERT_EQ(run(rule, all, {c}, some_step()), cudaSuccess);
    for (size_t i = 0; i < c.n; ++i) {
      EXPECT_EQ(std::isnan(all[0]->masters[i]), i == 5) << i;
      EXPECT_EQ(std::isnan(all[0]->copy.bf16[i]), i == 5) << i;
    }
  });
}

TEST(Update, KeepsDenormals) {
  const Case c{.n = 5};
  for_rules([&](const auto& rule, auto form) {
    AllTensors all = make({c});
    Tensors& t = *all[0];
    for (size_t i = 0; i < c.n; ++i) {
      t.grads.at(i) = t.gradient[i] = 1e-20f;
      for (size_t k = 0; k < 3; ++k) t.states[k].at(i) = t.before[1 + k][i] = 3e-41f;
    }
    ASSERT_EQ(run(rule, all, {c}, some_step()), cudaSuccess);
    expect_promise(rule, form, t, c, 0, some_step());
  });
}

TEST(Update, SlicesHaveTheStatesOfTheForm) {
  AllTensors all = make({{.n = 1}});
  const Operand<StepScalars> scalars(1, some_step());
  for_rules([&](const auto& rule, auto) {
    for (const size_t k : {0u, 1u, 3u}) {
      UpdateSlice slice = slice_of(rule, *all[0], {}, 0);
      slice.states[k] = slice.states[k] != nullptr ? nullptr : all[0]->states[0].data();
      EXPECT_EQ(update({.rule = rule, .slices = &slice, .slice_count = 1, .scalars = scalars.data()}, nullptr),
                cudaErrorInvalidValue);
    }
  });
}

// ---- Muon's directions

TEST(MuonMomentum, GivesThePromisedBits) {
  const Operand<StepScalars> scalars(1, some_step());
  const auto rest = static_cast<float>(1 - 0.95), scale = static_cast<float>(some_step().grad_scale);
  for (const bool nesterov : {false, true}) {
    AllTensors all = make(cases());
    std::vector<MuonMomentumSlice> slices;
    for (auto& t : all)
      slices.push_back(
          {.grads = t->grads.data(), .momentum_buffer = t->states[0].data(), .n = static_cast<int64_t>(t->n)});
    ASSERT_EQ(muon_momentum({.slices = slices.data(),
                             .slice_count = static_cast<int>(slices.size()),
                             .scalars = scalars.data(),
                             .momentum = 0.95,
                             .nesterov = nesterov},
                            nullptr),
              cudaSuccess);
    for (const auto& t : all)
      for (size_t i = 0; i < t->n; ++i) {
        const float g = t->gradient[i] * scale, old = t->before[1][i];
        const float b = std::fma(rest, g - old, old);
        ASSERT_EQ(t->states[0][i], b) << i;
        ASSERT_EQ(t->grads[i], nesterov ? std::fma(rest, g - b, b) : b) << i;
      }
  }
}

// ---- running statistics

cudaError_t run_blend(AllTensors& all, int64_t micro_batches, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  std::vector<BlendSlice> slices;
  for (auto& t : all)
    slices.push_back({.masters = t->masters.data(),
                      .sums = t->grads.data(),
                      .copy = t->copy.data(),
                      .copy_type = t->copy.type(),
                      .n = static_cast<int64_t>(t->n),
                      .momentum = slices.empty() ? 0.1 : 0.25});
  return blend({.slices = slices.data(),
                .slice_count = static_cast<int>(slices.size()),
                .micro_batches = micro_batches,
                .scalars = scalars.data()},
               nullptr);
}

void expect_blend(const Tensors& t, float momentum, int64_t micro_batches) {
  const float share = 1 / static_cast<float>(micro_batches);
  for (size_t i = 0; i < t.n; ++i) {
    const float p = t.before[0][i];
    ASSERT_EQ(t.masters[i], p + momentum * (t.gradient[i] * share - p)) << i;
    ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
  }
}

TEST(Blend, GivesThePromisedBits) {
  AllTensors all = make(cases());
  ASSERT_EQ(run_blend(all, 3, some_step()), cudaSuccess);
  for (const auto& t : all) ASSERT_NO_FATAL_FAILURE(expect_blend(*t, t == all.front() ? 0.1f : 0.25f, 3));
}

TEST(Blend, LargeTensorsGiveABlockMoreThanOnePass) {
  AllTensors all = make({{.n = 5}, {.n = (size_t{1} << 20) + 1030, .copy = Copy::Kind::bf16}, {.n = 4097, .shift = 1}});
  ASSERT_EQ(run_blend(all, 2, some_step()), cudaSuccess);
  for (const auto& t : all) ASSERT_NO_FATAL_FAILURE(expect_blend(*t, t == all.front() ? 0.1f : 0.25f, 2));
}

// ---- averages of weights

/// The first state is the average.
cudaError_t run_ema(AllTensors& all, double decay, int64_t start, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  std::vector<EmaSlice> slices;
  for (auto& t : all)
    slices.push_back({.masters = t->masters.data(), .average = t->states[0].data(), .n = static_cast<int64_t>(t->n)});
  return ema({.slices = slices.data(),
              .slice_count = static_cast<int>(slices.size()),
              .decay = decay,
              .start = start,
              .scalars = scalars.data()},
             nullptr);
}

void expect_ema(const Tensors& t, double decay) {
  const auto rest = static_cast<float>(1 - decay);
  EXPECT_EQ(t.masters.values(), t.before[0]);
  t.copy.expect_untouched();
  for (size_t i = 0; i < t.n; ++i) {
    const float p = t.before[0][i], a = t.before[1][i];
    ASSERT_EQ(t.states[0][i], std::fma(rest, p - a, a)) << i;
    ASSERT_NEAR(t.states[0][i], decay * a + (1 - decay) * p, 1e-6) << i;
  }
}

TEST(Ema, GivesThePromisedBits) {
  for (const double decay : {0.0, 0.9, 0.9999}) {
    AllTensors all = make(cases());
    ASSERT_EQ(run_ema(all, decay, /*start=*/some_step().applied - 1, some_step()), cudaSuccess);
    for (const auto& t : all) ASSERT_NO_FATAL_FAILURE(expect_ema(*t, decay));
  }
}

}  // namespace
}  // namespace ct::kernels
