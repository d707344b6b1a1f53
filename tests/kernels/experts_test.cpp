#include "experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "buffer.h"
#include "graph/routing_draws.h"
#include "run.h"
#include "selftest/reference/experts.h"
#include "typed.h"

namespace ct::kernels {
namespace {

using reference::RoutingSizes;

struct Case {
  RoutingSizes s;
  int64_t columns, stride;
  size_t shift = 0;
};
const Case kCases[] = {
    {{16, 4, 4, 1}, 84, 96}, {{5, 1, 2, 1}, 7, 7, 1}, {{9, 6, 3, 2}, 40, 48}, {{4, 64, 1, 1}, 3, 16}};

template <class T>
class ExpertsKernel : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(ExpertsKernel, Types);

std::vector<double> doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }
template <class T>
std::vector<double> values_of(size_t n, uint32_t which) {
  return doubles(rounded<T>(numbers(n, which)));
}

/// Rows of `columns` in rows of `stride`, pads zero.
template <class T>
struct Rows : Buffer<T> {
  Rows(const std::vector<double>& dense, const Case& c)
      : Buffer<T>(dense.size() / static_cast<size_t>(c.columns) * static_cast<size_t>(c.stride), c.shift) {
    for (size_t i = 0; i < this->size(); ++i) {
      const auto at = static_cast<int64_t>(i), column = at % c.stride;
      const double value = column < c.columns ? dense[static_cast<size_t>(at / c.stride * c.columns + column)] : 0;
      this->at(i) = from_float<T>(static_cast<float>(value));
    }
  }
};
template <class T>
void expect_rows(const Buffer<T>& got, const std::vector<double>& want, const Case& c, double size) {
  for (size_t i = 0; i < got.size(); ++i) {
    const auto at = static_cast<int64_t>(i), column = at % c.stride;
    const double expected = column < c.columns ? want[static_cast<size_t>(at / c.stride * c.columns + column)] : 0;
    const double tolerance = column < c.columns ? 2e-6 * size + 1.01 * Named<T>::kRounding * std::abs(expected) : 0;
    ASSERT_NEAR(got[i], expected, tolerance) << "element " << i;
  }
}

/// Buffers of all experts.
template <class T>
std::vector<std::unique_ptr<Buffer<T>>> of_experts(const std::vector<double>& all, const Case& c) {
  std::vector<std::unique_ptr<Buffer<T>>> buffers;
  const auto each = c.s.capacity * c.columns;
  for (int64_t e = 0; e < c.s.experts; ++e)
    buffers.push_back(
        std::make_unique<Rows<T>>(std::vector<double>(all.begin() + e * each, all.begin() + (e + 1) * each), c));
  return buffers;
}
template <class T>
ExpertsShape shape_of(const Case& c) {
  return {Named<T>::kType, c.s.rows, c.stride, c.s.experts, c.s.capacity, c.s.top_k};
}
template <class T, class Buffers, class Pointer>
void point(const Buffers& buffers, Pointer (&to)[kMostExperts]) {
  for (size_t e = 0; e < buffers.size(); ++e) to[e] = buffers[e]->data();
}

TYPED_TEST(ExpertsKernel, SendsRowsAndBringsThemBack) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.s.rows << " rows to " << c.s.experts);
    const auto routed = reference::route(c.s, doubles(numbers(static_cast<size_t>(c.s.rows * c.s.experts), 1)), nullptr,
                                         /*sampled=*/false, 0);
    const std::vector<float> weights = numbers(c.s.choices(), 2);
    const std::vector<double> x = values_of<T>(static_cast<size_t>(c.s.rows * c.columns), 3),
                              from = values_of<T>(routed.sources.size() * static_cast<size_t>(c.columns), 4);
    Operand<int32_t> slots, sources;
    for (const double v : routed.slots) slots.push_back(static_cast<int32_t>(v));
    for (const double v : routed.sources) sources.push_back(static_cast<int32_t>(v));
    Operand<float> weight;
    for (const float w : weights) weight.push_back(w);
    Rows<T> rows(x, c);
    const auto results = of_experts<T>(from, c);
    for (const bool weighs : {false, true}) {
      const std::vector<double> by = weighs ? doubles(weights) : std::vector<double>(weights.size(), 1.0);
      on_host::in_all_orders([&] {
        const auto sent = of_experts<T>(from, c);
        DispatchArgs there{.shape = shape_of<T>(c),
                           .x = rows.data(),
                           .sources = sources.data(),
                           .weights = weighs ? weight.data() : nullptr,
                           .to = {}};
        point<T>(sent, there.to);
        ASSERT_EQ(dispatch(there, nullptr), cudaSuccess);
        const std::vector<double> all = reference::dispatch(c.s, c.columns, x, routed.sources, by);
        const auto each = c.s.capacity * c.columns;
        for (int64_t e = 0; e < c.s.experts; ++e)
          expect_rows(*sent[static_cast<size_t>(e)], {all.begin() + e * each, all.begin() + (e + 1) * each}, c, 4);

        Buffer<T> y(rows.size(), c.shift);
        CombineArgs back{.shape = shape_of<T>(c),
                         .from = {},
                         .slots = slots.data(),
                         .weights = weighs ? weight.data() : nullptr,
                         .y = y.data()};
        point<T>(results, back.from);
        ASSERT_EQ(combine(back, nullptr), cudaSuccess);
        expect_rows(y, reference::combine(c.s, c.columns, from, routed.slots, by), c, 8);
      });
    }
    on_host::in_all_orders([&] {
      Buffer<float> dweights(weights.size());
      CombineGradWeightsArgs args{
          .shape = shape_of<T>(c), .from = {}, .slots = slots.data(), .dy = rows.data(), .dweights = dweights.data()};
      point<T>(results, args.from);
      ASSERT_EQ(combine_grad_weights(args, nullptr), cudaSuccess);
      const auto want = reference::combine_weights_gradient(c.s, c.columns, from, routed.slots, x);
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(dweights[i], want[i], 1e-4) << i;
    });
  }
}

TYPED_TEST(ExpertsKernel, Jitters) {
  using T = TypeParam;
  constexpr DropoutKey kKey{42, 9, 3};
  for (const size_t n : {0, 1, 7, 2100}) {
    Operand<DropoutKey> key;
    key.push_back(kKey);
    const std::vector<double> values = values_of<T>(n, 1);
    Buffer<T> x({values.begin(), values.end()}, 1);
    on_host::in_all_orders([&] {
      Buffer<T> y(n, 1);
      ASSERT_EQ(jitter({.type = Named<T>::kType,
                        .n = static_cast<int64_t>(n),
                        .key = key.data(),
                        .number = 6,
                        .x = x.data(),
                        .y = y.data()},
                       nullptr),
                cudaSuccess);
      for (size_t i = 0; i < n; ++i) {
        const double want = values[i] * static_cast<double>(jitter_factor(kKey, 6, static_cast<int64_t>(i)));
        ASSERT_NEAR(y[i], want, (1.01 * Named<T>::kRounding + 1e-6) * std::abs(want)) << i;
      }
    });
  }
}

TYPED_TEST(ExpertsKernel, MixesRowsByTheirScores) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    const auto n = static_cast<size_t>(c.s.rows * c.columns), rows = static_cast<size_t>(c.s.rows);
    const std::vector<double> a = values_of<T>(n, 1), b = values_of<T>(n, 2), d = values_of<T>(n, 3),
                              z = doubles(numbers(2 * rows, 4));
    Rows<T> first(a, c), second(b, c), dy(d, c);
    constexpr int64_t kScoreStride = 16;
    Operand<float> scores(rows * kScoreStride);
    for (size_t i = 0; i < z.size(); ++i) scores[i / 2 * kScoreStride + i % 2] = static_cast<float>(z[i]);
    std::vector<double> da, db, dscores(rows * kScoreStride);
    for (size_t i = 0; i < n; ++i) {
      const size_t row = i / static_cast<size_t>(c.columns);
      const std::vector<double> share = reference::softmax_of_row(z, static_cast<int64_t>(row), 2);
      da.push_back(share[0] * d[i]);
      db.push_back(share[1] * d[i]);
      dscores[row * kScoreStride] += share[0] * share[1] * d[i] * (a[i] - b[i]);
      dscores[row * kScoreStride + 1] = -dscores[row * kScoreStride];
    }
    on_host::in_all_orders([&] {
      Buffer<T> y(first.size(), c.shift), to_a(first.size(), c.shift), to_b(first.size(), c.shift);
      Buffer<float> to_scores(scores.size());
      ASSERT_EQ(softmax_mix({.type = Named<T>::kType,
                             .rows = c.s.rows,
                             .stride = c.stride,
                             .score_stride = kScoreStride,
                             .a = first.data(),
                             .b = second.data(),
                             .scores = scores.data(),
                             .y = y.data()},
                            nullptr),
                cudaSuccess);
      expect_rows(y, reference::softmax_mix(c.s.rows, a, b, z), c, 4);
      ASSERT_EQ(softmax_mix_grad({.type = Named<T>::kType,
                                  .rows = c.s.rows,
                                  .stride = c.stride,
                                  .score_stride = kScoreStride,
                                  .a = first.data(),
                                  .b = second.data(),
                                  .scores = scores.data(),
                                  .dy = dy.data(),
                                  .da = to_a.data(),
                                  .db = to_b.data(),
                                  .dscores = to_scores.data()},
                                 nullptr),
                cudaSuccess);
      expect_rows(to_a, da, c, 4);
      expect_rows(to_b, db, c, 4);
      for (size_t i = 0; i < dscores.size(); ++i) ASSERT_NEAR(to_scores[i], dscores[i], i % 16 < 2 ? 1e-4 : 0) << i;
    });
  }
}

TEST(Experts, RefuseWhatMakesNoSense) {
  const ExpertsShape good{Type::f32, 4, 16, 2, 2, 1};
  const auto refused = [&](auto change) {
    ExpertsShape s = good;
    change(s);
    return dispatch({.shape = s}, nullptr) == cudaErrorInvalidValue &&
           combine({.shape = s}, nullptr) == cudaErrorInvalidValue &&
           combine_grad_weights({.shape = s}, nullptr) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](auto& s) { s.type = static_cast<Type>(7); }));
  EXPECT_TRUE(refused([](auto& s) { s.rows = 0; }));
  EXPECT_TRUE(refused([](auto& s) { s.stride = 0; }));
  EXPECT_TRUE(refused([](auto& s) { s.experts = kMostExperts + 1; }));
  EXPECT_TRUE(refused([](auto& s) { s.capacity = 5; }));
  EXPECT_TRUE(refused([](auto& s) { s.top_k = 3; }));
  EXPECT_EQ(jitter({.type = Type::f32, .n = -1}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(softmax_mix({.type = Type::f32, .rows = 1, .stride = 4, .score_stride = 1}, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(softmax_mix_grad({.type = Type::f32, .rows = -1, .stride = 4, .score_stride = 2}, nullptr),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ct::kernels
