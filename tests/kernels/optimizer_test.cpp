#include "optimizer.h"

#include <cmath>
#include <limits>
#include <memory>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/optimizer.h"

namespace ct::kernels {
namespace {

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

/// The tensors of a case; `before` is what masters, first, second (positive) and third state were.
struct Tensors {
  Tensors(const Case& c, uint32_t which)
      : n(c.n),
        before{numbers(n, 10 * which), numbers(n, 10 * which + 1), positive(numbers(n, 10 * which + 2)),
               numbers(n, 10 * which + 4)},
        gradient(numbers(n, 10 * which + 3)),
        masters(before[0], c.shift),
        first(before[1], c.shift),
        second(before[2], c.shift),
        third(before[3], c.shift),
        grads(gradient, c.shift),
        copy(c.copy, n, c.copy_shift) {}
  void expect_untouched() const {
    EXPECT_EQ(masters.values(), before[0]);
    EXPECT_EQ(first.values(), before[1]);
    EXPECT_EQ(second.values(), before[2]);
    EXPECT_EQ(third.values(), before[3]);
    copy.expect_untouched();
  }
  size_t n;
  std::vector<float> before[4], gradient;
  Buffer<float> masters, first, second, third, grads;
  Copy copy;
};
using AllTensors = std::vector<std::unique_ptr<Tensors>>;

AllTensors make(const std::vector<Case>& cases) {
  AllTensors all;
  for (const Case& c : cases) all.push_back(std::make_unique<Tensors>(c, static_cast<uint32_t>(all.size())));
  return all;
}

UpdateSlice slice_of(Tensors& t, const Case& c) {
  return {.masters = t.masters.data(),
          .grads = t.grads.data(),
          .copy = t.copy.data(),
          .copy_type = t.copy.type(),
          .n = static_cast<int64_t>(t.n),
          .weight_decay = c.weight_decay,
          .lr_scale = c.lr_scale};
}

// ---- Adam

struct AdamOptions {
  double eps = 1e-6;
  bool decoupled = true;
};

cudaError_t run_adam(AllTensors& all, const std::vector<Case>& cases, const AdamOptions& o, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  std::vector<AdamSlice> slices;
  for (size_t i = 0; i < cases.size(); ++i) {
    Tensors& t = *all[i];
    slices.push_back({slice_of(t, cases[i]), t.first.data(), t.second.data()});
  }
  return adam(
      {.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}, .eps = o.eps, .decoupled = o.decoupled},
      nullptr);
}

/// What the header promises to the bit.
void expect_adam(const Tensors& t, const Case& c, const AdamOptions& o, const StepScalars& s) {
  const double beta1 = s.coefficients[kBeta1], beta2 = s.coefficients[kBeta2];
  const auto b1 = static_cast<float>(beta1), c1 = static_cast<float>(1 - beta1);
  const auto b2 = static_cast<float>(beta2), c2 = static_cast<float>(1 - beta2);
  const auto decay = static_cast<float>(c.weight_decay), lr = static_cast<float>(s.lr * c.lr_scale);
  const auto correct1 = static_cast<float>(1 / s.coefficients[kBiasCorrection1]);
  const auto correct2 = static_cast<float>(1 / std::sqrt(s.coefficients[kBiasCorrection2]));
  for (size_t i = 0; i < t.n; ++i) {
    const float p = t.before[0][i];
    float g = t.gradient[i] * static_cast<float>(s.grad_scale);
    if (!o.decoupled) g = std::fma(decay, p, g);
    const float m = std::fma(b1, t.before[1][i], c1 * g), v = std::fma(b2, t.before[2][i], c2 * (g * g));
    float u = m * correct1 / std::fma(std::sqrt(v), correct2, static_cast<float>(o.eps));
    if (o.decoupled) u = std::fma(decay, p, u);
    ASSERT_EQ(t.first[i], m) << i;
    ASSERT_EQ(t.second[i], v) << i;
    ASSERT_EQ(t.masters[i], std::fma(-lr, u, p)) << i;
    ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
  }
}

TEST(Adam, GivesThePromisedBits) {
  for (const bool decoupled : {false, true})
    on_host::in_all_orders([&] {
      const AdamOptions options{.decoupled = decoupled};
      AllTensors all = make(cases());
      ASSERT_EQ(run_adam(all, cases(), options, some_step()), cudaSuccess);
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_NO_FATAL_FAILURE(expect_adam(*all[i], cases()[i], options, some_step())) << "slice " << i;
    });
}

TEST(Adam, IsPyTorchsAdamOverSeveralSteps) {
  for (const bool decoupled : {false, true}) {
    const Case c{.n = 57, .weight_decay = 0.1};
    AllTensors all = make({c});
    Tensors& t = *all[0];
    std::vector<reference::AdamElement> expected;
    for (size_t i = 0; i < c.n; ++i) {
      t.first.at(i) = t.second.at(i) = 0;
      expected.push_back({.p = t.before[0][i], .m = 0, .v = 0});
    }
    for (int k = 1; k <= 5; ++k) {
      StepScalars step = some_step();
      const double correction1 = step.coefficients[kBiasCorrection1] = 1 - std::pow(0.9, k);
      const double correction2 = step.coefficients[kBiasCorrection2] = 1 - std::pow(0.999, k);
      const std::vector<float> gradient = numbers(c.n, 100 + static_cast<uint32_t>(k));
      for (size_t i = 0; i < c.n; ++i) {
        t.grads.at(i) = gradient[i];
        expected[i] = reference::adam({step.lr, 0.9, 0.999, 1e-6, c.weight_decay, decoupled}, expected[i],
                                      gradient[i] * step.grad_scale, correction1, correction2);
      }
      ASSERT_EQ(run_adam(all, {c}, {.decoupled = decoupled}, step), cudaSuccess);
    }
    for (size_t i = 0; i < c.n; ++i) EXPECT_NEAR(t.masters[i], expected[i].p, 2e-6) << i;
  }
}

TEST(Adam, ASkippedStepWritesNothing) {
  on_host::in_all_orders([] {
    StepScalars step = some_step();
    step.skip = 1;
    step.grad_scale = kNan;
    AllTensors all = make(cases());
    ASSERT_EQ(run_adam(all, cases(), {}, step), cudaSuccess);
    for (const auto& t : all) t->expect_untouched();
  });
}

TEST(Adam, TakesAnyNumberOfSlices) {
  for (const size_t count : {0u, 1u, 63u, 64u, 65u, 130u}) {
    const std::vector<Case> many(count, {.n = 5, .weight_decay = 0.5});
    AllTensors all = make(many);
    ASSERT_EQ(run_adam(all, many, {}, some_step()), cudaSuccess);
    for (size_t i = 0; i < count; ++i)
      ASSERT_NO_FATAL_FAILURE(expect_adam(*all[i], many[i], {}, some_step())) << i << " of " << count;
  }
}

TEST(Adam, AnElementsBitsDoNotDependOnTheCut) {
  const auto bytes = [](const std::vector<size_t>& cuts) {
    Tensors t({.n = 3000}, 7);
    std::vector<AdamSlice> slices;
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      slices.push_back({{.masters = t.masters.data() + cuts[i],
                         .grads = t.grads.data() + cuts[i],
                         .n = static_cast<int64_t>(cuts[i + 1] - cuts[i])},
                        t.first.data() + cuts[i],
                        t.second.data() + cuts[i]});
    const Operand<StepScalars> scalars(1, some_step());
    EXPECT_EQ(
        adam({.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}, .eps = 1e-8, .decoupled = true},
             nullptr),
        cudaSuccess);
    return std::vector{t.masters.bytes(), t.first.bytes(), t.second.bytes()};
  };
  const auto whole = bytes({0, 3000});
  EXPECT_EQ(bytes({0, 1, 1000, 2999, 3000}), whole);
  EXPECT_EQ(bytes({0, 1024, 1027, 3000}), whole);
}

TEST(Adam, NotANumberStaysWithItsElement) {
  const Case c{.n = 9, .copy = Copy::Kind::bf16};
  AllTensors all = make({c});
  all[0]->grads.at(5) = kNan;
  ASSERT_EQ(run_adam(all, {c}, {}, some_step()), cudaSuccess);
  for (size_t i = 0; i < c.n; ++i) {
    EXPECT_EQ(std::isnan(all[0]->masters[i]), i == 5) << i;
    EXPECT_EQ(std::isnan(all[0]->copy.bf16[i]), i == 5) << i;
  }
}

TEST(Adam, KeepsDenormals) {
  const Case c{.n = 5};
  AllTensors all = make({c});
  Tensors& t = *all[0];
  for (size_t i = 0; i < c.n; ++i) {
    t.grads.at(i) = t.gradient[i] = 1e-20f;
    t.first.at(i) = t.before[1][i] = 1e-40f;
    t.second.at(i) = t.before[2][i] = 3e-41f;
  }
  ASSERT_EQ(run_adam(all, {c}, {.eps = 0}, some_step()), cudaSuccess);
  expect_adam(t, c, {.eps = 0}, some_step());
  EXPECT_NE(t.second[0], 0);
}

// ---- SGD

struct SgdOptions {
  bool nesterov = false, buffer = true;
};

cudaError_t run_sgd(AllTensors& all, const std::vector<Case>& cases, const SgdOptions& o, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  std::vector<SgdSlice> slices;
  for (size_t i = 0; i < cases.size(); ++i) {
    Tensors& t = *all[i];
    slices.push_back({slice_of(t, cases[i]), o.buffer ? t.first.data() : nullptr});
  }
  return sgd({.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}, .nesterov = o.nesterov},
             nullptr);
}

void expect_sgd(const Tensors& t, const Case& c, const SgdOptions& o, const StepScalars& s) {
  const auto decay = static_cast<float>(c.weight_decay), lr = static_cast<float>(s.lr * c.lr_scale);
  const double given = s.coefficients[kMomentum];
  const auto momentum = static_cast<float>(given);
  for (size_t i = 0; i < t.n; ++i) {
    const float p = t.before[0][i];
    const reference::SgdElement reference =
        reference::sgd({s.lr * c.lr_scale, o.buffer ? given : 0, c.weight_decay, o.nesterov && o.buffer},
                       {p, o.buffer ? t.before[1][i] : 0}, t.gradient[i] * s.grad_scale);
    float g = std::fma(decay, p, t.gradient[i] * static_cast<float>(s.grad_scale));
    if (o.buffer) {
      const float buffer = std::fma(momentum, t.before[1][i], g);
      ASSERT_EQ(t.first[i], buffer) << i;
      g = o.nesterov ? std::fma(momentum, buffer, g) : buffer;
    } else {
      ASSERT_EQ(t.first[i], t.before[1][i]) << i;
    }
    ASSERT_EQ(t.masters[i], std::fma(-lr, g, p)) << i;
    ASSERT_NEAR(t.masters[i], reference.p, 1e-6) << i;
    ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
  }
}

TEST(Sgd, GivesThePromisedBits) {
  for (const SgdOptions& options : {SgdOptions{}, SgdOptions{.nesterov = true}, SgdOptions{.buffer = false}})
    on_host::in_all_orders([&] {
      AllTensors all = make(cases());
      ASSERT_EQ(run_sgd(all, cases(), options, some_step()), cudaSuccess);
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_NO_FATAL_FAILURE(expect_sgd(*all[i], cases()[i], options, some_step())) << "slice " << i;
    });
}

TEST(Sgd, ASkippedStepWritesNothing) {
  StepScalars step = some_step();
  step.skip = 1;
  AllTensors all = make(cases());
  ASSERT_EQ(run_sgd(all, cases(), {}, step), cudaSuccess);
  for (const auto& t : all) t->expect_untouched();
}

TEST(Sgd, AllSlicesHaveABufferOrNone) {
  float x[2] = {};
  const SgdSlice slices[] = {{{.masters = &x[0], .grads = &x[0], .n = 1}, nullptr},
                             {{.masters = &x[1], .grads = &x[1], .n = 1}, &x[1]}};
  const StepScalars step = some_step();
  EXPECT_EQ(sgd({.all = {slices, 2, &step}, .nesterov = false}, nullptr), cudaErrorInvalidValue);
}

// ---- RMSprop

struct RmsPropOptions {
  bool centered = false, buffer = false;
  double alpha = 0.9, eps = 1e-6;
};

cudaError_t run_rmsprop(AllTensors& all, const std::vector<Case>& cases, const RmsPropOptions& o,
                        const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  std::vector<RmsPropSlice> slices;
  for (size_t i = 0; i < cases.size(); ++i) {
    Tensors& t = *all[i];
    slices.push_back({slice_of(t, cases[i]), t.second.data(), o.buffer ? t.first.data() : nullptr,
                      o.centered ? t.third.data() : nullptr});
  }
  return rmsprop(
      {.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}, .alpha = o.alpha, .eps = o.eps},
      nullptr);
}

void expect_rmsprop(const Tensors& t, const Case& c, const RmsPropOptions& o, const StepScalars& s) {
  const auto decay = static_cast<float>(c.weight_decay), lr = static_cast<float>(s.lr * c.lr_scale);
  const auto alpha = static_cast<float>(o.alpha), rest = static_cast<float>(1 - o.alpha);
  const auto momentum = static_cast<float>(s.coefficients[kMomentum]);
  for (size_t i = 0; i < t.n; ++i) {
    const float p = t.before[0][i], g = std::fma(decay, p, t.gradient[i] * static_cast<float>(s.grad_scale));
    const float square = std::fma(alpha, t.before[2][i], rest * (g * g));
    const float mean = std::fma(alpha, t.before[3][i], rest * g);
    const float under = o.centered ? std::fmax(std::fma(-mean, mean, square), 0.0f) : square;
    float u = g / (std::sqrt(under) + static_cast<float>(o.eps));
    if (o.buffer) u = std::fma(momentum, t.before[1][i], u);
    ASSERT_EQ(t.second[i], square) << i;
    ASSERT_EQ(t.third[i], o.centered ? mean : t.before[3][i]) << i;
    ASSERT_EQ(t.first[i], o.buffer ? u : t.before[1][i]) << i;
    ASSERT_EQ(t.masters[i], std::fma(-lr, u, p)) << i;
    ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
  }
}

TEST(RmsProp, GivesThePromisedBits) {
  for (const RmsPropOptions& options :
       {RmsPropOptions{}, {.buffer = true}, {.centered = true}, {.centered = true, .buffer = true}})
    on_host::in_all_orders([&] {
      AllTensors all = make(cases());
      ASSERT_EQ(run_rmsprop(all, cases(), options, some_step()), cudaSuccess);
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_NO_FATAL_FAILURE(expect_rmsprop(*all[i], cases()[i], options, some_step())) << "slice " << i;
    });
}

TEST(RmsProp, TakesAnyNumberOfSlices) {
  const RmsPropOptions four_states{.centered = true, .buffer = true};
  for (const size_t count : {0u, 1u, 31u, 32u, 33u, 65u}) {
    const std::vector<Case> many(count, {.n = 5, .weight_decay = 0.5});
    AllTensors all = make(many);
    ASSERT_EQ(run_rmsprop(all, many, four_states, some_step()), cudaSuccess);
    for (size_t i = 0; i < count; ++i)
      ASSERT_NO_FATAL_FAILURE(expect_rmsprop(*all[i], many[i], four_states, some_step())) << i << " of " << count;
  }
}

TEST(RmsProp, ASkippedStepWritesNothing) {
  StepScalars step = some_step();
  step.skip = 1;
  AllTensors all = make(cases());
  ASSERT_EQ(run_rmsprop(all, cases(), {.centered = true, .buffer = true}, step), cudaSuccess);
  for (const auto& t : all) t->expect_untouched();
}

TEST(RmsProp, AllSlicesHaveABufferOrNone) {
  float x[2] = {};
  const RmsPropSlice slices[] = {{{.masters = &x[0], .grads = &x[0], .n = 1}, &x[0], nullptr, nullptr},
                                 {{.masters = &x[1], .grads = &x[1], .n = 1}, &x[1], nullptr, &x[1]}};
  const StepScalars step = some_step();
  EXPECT_EQ(rmsprop({.all = {slices, 2, &step}, .alpha = 0.9, .eps = 1e-8}, nullptr), cudaErrorInvalidValue);
}

// ---- Lion

cudaError_t run_lion(AllTensors& all, const std::vector<Case>& cases, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  std::vector<LionSlice> slices;
  for (size_t i = 0; i < cases.size(); ++i) slices.push_back({slice_of(*all[i], cases[i]), all[i]->first.data()});
  return lion({.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}}, nullptr);
}

void expect_lion(const Tensors& t, const Case& c, const StepScalars& s) {
  const double beta1 = s.coefficients[kBeta1], beta2 = s.coefficients[kBeta2];
  const auto decay = static_cast<float>(c.weight_decay), lr = static_cast<float>(s.lr * c.lr_scale);
  for (size_t i = 0; i < t.n; ++i) {
    const float p = t.before[0][i], m = t.before[1][i], g = t.gradient[i] * static_cast<float>(s.grad_scale);
    const float mixed = std::fma(static_cast<float>(beta1), m, static_cast<float>(1 - beta1) * g);
    const float sign = static_cast<float>((mixed > 0) - (mixed < 0));
    ASSERT_EQ(t.first[i], std::fma(static_cast<float>(beta2), m, static_cast<float>(1 - beta2) * g)) << i;
    ASSERT_EQ(t.masters[i], std::fma(-lr, std::fma(decay, p, sign), p)) << i;
    ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
  }
}

TEST(Lion, GivesThePromisedBits) {
  on_host::in_all_orders([] {
    AllTensors all = make(cases());
    for (auto& t : all)  // what no gradient reached stays
      if (t->n > 2) t->grads.at(2) = t->gradient[2] = t->first.at(2) = t->before[1][2] = 0;
    ASSERT_EQ(run_lion(all, cases(), some_step()), cudaSuccess);
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_NO_FATAL_FAILURE(expect_lion(*all[i], cases()[i], some_step())) << "slice " << i;
  });
}

TEST(Lion, ASkippedStepWritesNothing) {
  StepScalars step = some_step();
  step.skip = 1;
  AllTensors all = make(cases());
  ASSERT_EQ(run_lion(all, cases(), step), cudaSuccess);
  for (const auto& t : all) t->expect_untouched();
}

TEST(Lion, NotANumberShows) {
  const Case c{.n = 9};
  AllTensors all = make({c});
  all[0]->grads.at(5) = kNan;
  ASSERT_EQ(run_lion(all, {c}, some_step()), cudaSuccess);
  for (size_t i = 0; i < c.n; ++i) EXPECT_EQ(std::isnan(all[0]->masters[i]), i == 5) << i;
}

// ---- Adagrad

TEST(Adagrad, GivesThePromisedBits) {
  on_host::in_all_orders([] {
    AllTensors all = make(cases());
    StepScalars step = some_step();
    step.coefficients[kAdagradRateFactor] = 0.3;
    const Operand<StepScalars> scalars(1, step);
    std::vector<AdagradSlice> slices;
    for (size_t i = 0; i < all.size(); ++i) slices.push_back({slice_of(*all[i], cases()[i]), all[i]->second.data()});
    ASSERT_EQ(adagrad({.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}, .eps = 1e-6}, nullptr),
              cudaSuccess);
    for (size_t k = 0; k < all.size(); ++k) {
      const Tensors& t = *all[k];
      const Case c = cases()[k];
      const auto decay = static_cast<float>(c.weight_decay), lr = static_cast<float>(step.lr * c.lr_scale * 0.3);
      for (size_t i = 0; i < t.n; ++i) {
        const float p = t.before[0][i], g = std::fma(decay, p, t.gradient[i] * static_cast<float>(step.grad_scale));
        const float sum = std::fma(g, g, t.before[2][i]);
        ASSERT_EQ(t.second[i], sum) << i;
        ASSERT_EQ(t.masters[i], std::fma(-lr, g / (std::sqrt(sum) + 1e-6f), p)) << i;
        ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
      }
    }
  });
}

// ---- LARS and LAMB

/// Every slice is of a tensor of its own; their ratios go down.
std::vector<float> ratios_of(const std::vector<Case>& cases) {
  std::vector<float> ratios;
  for (size_t i = 0; i < cases.size(); ++i) ratios.push_back(2.0f / static_cast<float>(i + 1));
  return ratios;
}

cudaError_t run_lars(AllTensors& all, const std::vector<Case>& cases, const SgdOptions& o, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  Operand<float> ratios;
  for (const float ratio : ratios_of(cases)) ratios.push_back(ratio);
  std::vector<LarsSlice> slices;
  for (size_t i = 0; i < cases.size(); ++i)
    slices.push_back({slice_of(*all[i], cases[i]), static_cast<int32_t>(i), o.buffer ? all[i]->first.data() : nullptr});
  return lars({.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()},
               .ratios = ratios.data(),
               .nesterov = o.nesterov},
              nullptr);
}

TEST(Lars, GivesThePromisedBits) {
  const StepScalars s = some_step();
  const auto momentum = static_cast<float>(s.coefficients[kMomentum]);
  for (const SgdOptions& options : {SgdOptions{}, SgdOptions{.nesterov = true}, SgdOptions{.buffer = false}})
    on_host::in_all_orders([&] {
      AllTensors all = make(cases());
      ASSERT_EQ(run_lars(all, cases(), options, s), cudaSuccess);
      for (size_t k = 0; k < all.size(); ++k) {
        const Tensors& t = *all[k];
        const Case c = cases()[k];
        const auto decay = static_cast<float>(c.weight_decay), lr = static_cast<float>(s.lr * c.lr_scale);
        for (size_t i = 0; i < t.n; ++i) {
          const float p = t.before[0][i], trust = ratios_of(cases())[k];
          float g = trust * std::fma(decay, p, t.gradient[i] * static_cast<float>(s.grad_scale));
          if (options.buffer) {
            const float buffer = std::fma(momentum, t.before[1][i], g);
            ASSERT_EQ(t.first[i], buffer) << i;
            g = options.nesterov ? std::fma(momentum, buffer, g) : buffer;
          }
          ASSERT_EQ(t.masters[i], std::fma(-lr, g, p)) << i;
          ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
        }
      }
    });
}

TEST(Lars, ASkippedStepWritesNothing) {
  StepScalars step = some_step();
  step.skip = 1;
  AllTensors all = make(cases());
  ASSERT_EQ(run_lars(all, cases(), {}, step), cudaSuccess);
  for (const auto& t : all) t->expect_untouched();
}

cudaError_t run_lamb(AllTensors& all, const std::vector<Case>& cases, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  Operand<float> ratios;
  for (const float ratio : ratios_of(cases)) ratios.push_back(ratio);
  std::vector<LambSlice> slices;
  for (size_t i = 0; i < cases.size(); ++i)
    slices.push_back(
        {slice_of(*all[i], cases[i]), static_cast<int32_t>(i), all[i]->first.data(), all[i]->second.data()});
  return lamb(
      {.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}, .ratios = ratios.data(), .eps = 1e-6},
      nullptr);
}

/// 13 slices, and more than a launch takes.
TEST(Lamb, GivesThePromisedBitsAndOnlyReadsMoments) {
  StepScalars s = some_step();
  s.coefficients[kLambRateFactor] = 0.4;
  for (const std::vector<Case>& some : {cases(), std::vector<Case>(33, {.n = 5, .weight_decay = 0.5})})
    on_host::in_all_orders([&] {
      AllTensors all = make(some);
      ASSERT_EQ(run_lamb(all, some, s), cudaSuccess);
      for (size_t k = 0; k < all.size(); ++k) {
        const Tensors& t = *all[k];
        const auto decay = static_cast<float>(some[k].weight_decay);
        const float rate = static_cast<float>(s.lr * some[k].lr_scale * 0.4) * ratios_of(some)[k];
        EXPECT_EQ(t.first.values(), t.before[1]);
        EXPECT_EQ(t.second.values(), t.before[2]);
        for (size_t i = 0; i < t.n; ++i) {
          const float p = t.before[0][i];
          const float u = std::fma(decay, p, t.before[1][i] / (std::sqrt(t.before[2][i]) + 1e-6f));
          ASSERT_EQ(t.masters[i], std::fma(-rate, u, p)) << i;
          ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
        }
      }
    });
}

TEST(Lamb, ASkippedStepWritesNothing) {
  StepScalars step = some_step();
  step.skip = 1;
  AllTensors all = make(cases());
  ASSERT_EQ(run_lamb(all, cases(), step), cudaSuccess);
  for (const auto& t : all) t->expect_untouched();
}

// ---- Muon's passes over memory

TEST(MuonMomentum, GivesThePromisedBits) {
  const StepScalars s = some_step();
  const auto rest = static_cast<float>(1 - 0.95);
  for (const bool nesterov : {false, true})
    for (const int64_t skip : {0, 1})
      on_host::in_all_orders([&] {
        AllTensors all = make(cases());
        StepScalars step = s;
        step.skip = skip;
        const Operand<StepScalars> scalars(1, step);
        std::vector<MuonMomentumSlice> slices;
        for (auto& t : all)
          slices.push_back(
              {.grads = t->grads.data(), .momentum_buffer = t->first.data(), .n = static_cast<int64_t>(t->n)});
        ASSERT_EQ(muon_momentum({.slices = slices.data(),
                                 .slice_count = static_cast<int>(slices.size()),
                                 .scalars = scalars.data(),
                                 .momentum = 0.95,
                                 .nesterov = nesterov},
                                nullptr),
                  cudaSuccess);
        for (const auto& t : all)
          for (size_t i = 0; i < t->n; ++i) {
            const float g = t->gradient[i] * static_cast<float>(s.grad_scale), old = t->before[1][i];
            const float b = std::fma(rest, g - old, old);
            ASSERT_EQ(t->first[i], skip ? old : b) << i;
            ASSERT_EQ(t->grads[i], skip ? t->gradient[i] : nesterov ? std::fma(rest, g - b, b) : b) << i;
          }
      });
}

TEST(Muon, GivesThePromisedBits) {
  const StepScalars s = some_step();
  on_host::in_all_orders([&] {
    AllTensors all = make(cases());
    const Operand<StepScalars> scalars(1, s);
    std::vector<UpdateSlice> slices;
    for (size_t i = 0; i < all.size(); ++i) slices.push_back(slice_of(*all[i], cases()[i]));
    ASSERT_EQ(muon({.all = {slices.data(), static_cast<int>(slices.size()), scalars.data()}}, nullptr), cudaSuccess);
    for (size_t k = 0; k < all.size(); ++k) {
      const Tensors& t = *all[k];
      const Case c = cases()[k];
      const auto decay = static_cast<float>(c.weight_decay), lr = static_cast<float>(s.lr * c.lr_scale);
      for (size_t i = 0; i < t.n; ++i) {
        const float p = t.before[0][i];
        ASSERT_EQ(t.masters[i], std::fma(-lr, std::fma(decay, p, t.gradient[i]), p)) << i;
        ASSERT_NO_FATAL_FAILURE(t.copy.expect(i, t.masters[i]));
      }
    }
  });
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
  on_host::in_all_orders([] {
    AllTensors all = make(cases());
    ASSERT_EQ(run_blend(all, 3, some_step()), cudaSuccess);
    for (const auto& t : all) ASSERT_NO_FATAL_FAILURE(expect_blend(*t, t == all.front() ? 0.1f : 0.25f, 3));
  });
}

TEST(Blend, LargeTensorsGiveABlockMoreThanOnePass) {
  AllTensors all = make({{.n = 5}, {.n = (size_t{1} << 20) + 1030, .copy = Copy::Kind::bf16}, {.n = 4097, .shift = 1}});
  ASSERT_EQ(run_blend(all, 2, some_step()), cudaSuccess);
  for (const auto& t : all) ASSERT_NO_FATAL_FAILURE(expect_blend(*t, t == all.front() ? 0.1f : 0.25f, 2));
}

TEST(Blend, ASkippedStepWritesNothing) {
  StepScalars step = some_step();
  step.skip = 1;
  AllTensors all = make(cases());
  ASSERT_EQ(run_blend(all, 3, step), cudaSuccess);
  for (const auto& t : all) t->expect_untouched();
  EXPECT_EQ(run_blend(all, 0, step), cudaErrorInvalidValue);
}

// ---- averages of weights

/// The first state is the average.
cudaError_t run_ema(AllTensors& all, double decay, int64_t start, const StepScalars& step) {
  const Operand<StepScalars> scalars(1, step);
  std::vector<EmaSlice> slices;
  for (auto& t : all)
    slices.push_back({.masters = t->masters.data(), .average = t->first.data(), .n = static_cast<int64_t>(t->n)});
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
    ASSERT_EQ(t.first[i], std::fma(rest, p - a, a)) << i;
    ASSERT_NEAR(t.first[i], reference::ema(decay, a, p), 1e-6) << i;
  }
}

TEST(Ema, GivesThePromisedBits) {
  for (const double decay : {0.0, 0.9, 0.9999})
    on_host::in_all_orders([&] {
      AllTensors all = make(cases());
      ASSERT_EQ(run_ema(all, decay, /*start=*/some_step().applied - 1, some_step()), cudaSuccess);
      for (const auto& t : all) ASSERT_NO_FATAL_FAILURE(expect_ema(*t, decay));
    });
}

TEST(Ema, UpToItsStartItIsTheWeights) {
  for (const int64_t start : {some_step().applied, some_step().applied + 5}) {
    AllTensors all = make(cases());
    ASSERT_EQ(run_ema(all, 0.9, start, some_step()), cudaSuccess);
    for (const auto& t : all) EXPECT_EQ(t->first.values(), t->before[0]);
  }
}

TEST(Ema, ASkippedStepWritesNothing) {
  StepScalars step = some_step();
  step.skip = 1;
  for (const int64_t start : {int64_t{0}, step.applied}) {
    AllTensors all = make(cases());
    ASSERT_EQ(run_ema(all, 0.9, start, step), cudaSuccess);
    for (const auto& t : all) t->expect_untouched();
  }
}

TEST(Ema, TakesAnyNumberOfSlicesAndLargeOnes) {
  for (const size_t count : {0u, 1u, 65u, 130u}) {
    std::vector<Case> many(count, {.n = 5});
    if (count == 1) many[0] = {.n = (size_t{1} << 20) + 1030};
    AllTensors all = make(many);
    ASSERT_EQ(run_ema(all, 0.5, 0, some_step()), cudaSuccess);
    for (const auto& t : all) ASSERT_NO_FATAL_FAILURE(expect_ema(*t, 0.5)) << count;
  }
}

}  // namespace
}  // namespace ct::kernels
