#include "routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/experts.h"

namespace ct::kernels {
namespace {

using reference::RoutingSizes;

struct Case {
  RoutingSizes s;
  int64_t stride;
  bool drawn = false, sampled = false;
};
const Case kCases[] = {{{16, 4, 4, 1}, 16},          {{16, 4, 4, 1}, 4, true},   {{16, 4, 5, 1}, 16, true, true},
                       {{5, 1, 2, 1}, 3, true},      {{9, 64, 1, 1}, 64},        {{16, 4, 8, 2}, 16},
                       {{300, 3, 100, 2}, 16, true}, {{270, 2, 100, 1}, 2, true}};
constexpr DropoutKey kKey{~uint64_t{0}, (int64_t{1} << 32) + 7, 70000};
constexpr int kNumber = 5;

std::vector<double> doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }
/// Rows of `row` elements in rows of `stride`.
Operand<float> padded(const std::vector<double>& dense, int64_t row, int64_t stride) {
  Operand<float> to(dense.size() / static_cast<size_t>(row) * static_cast<size_t>(stride));
  for (size_t i = 0; i < dense.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    to[static_cast<size_t>(at / row * stride + at % row)] = static_cast<float>(dense[i]);
  }
  return to;
}
/// Logits by which no sampled choice is close.
std::vector<double> logits_of(const Case& c) {
  for (uint32_t which = 1;; ++which) {
    std::vector<double> logits = doubles(numbers(static_cast<size_t>(c.s.rows * c.s.experts), which));
    if (reference::route(c.s, logits, c.drawn ? &kKey : nullptr, c.sampled, kNumber).margin > 1e-4) return logits;
  }
}
RouteShape shape_of(const Case& c) { return {c.s.rows, c.s.experts, c.stride, c.s.capacity, c.s.top_k}; }

TEST(RoutingKernel, IsTheReferencesRouting) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.s.rows << " rows to " << c.s.top_k << " of " << c.s.experts);
    const std::vector<double> values = logits_of(c);
    const auto want = reference::route(c.s, values, c.drawn ? &kKey : nullptr, c.sampled, kNumber);
    const std::vector<double> weights = reference::route_weights(c.s, values, want.slots);
    const double balance = reference::balance(c.s, values, want.load);
    const Operand<float> logits = padded(values, c.s.experts, c.stride);
    Operand<DropoutKey> key;
    key.push_back(kKey);
    on_host::in_all_orders([&] {
      Buffer<int32_t> slots(want.slots.size()), sources(want.sources.size());
      Buffer<float> to(weights.size()), load(want.load.size()), sum(1);
      Buffer<uint32_t> workspace(route_workspace_bytes(shape_of(c)) / 4);
      ASSERT_EQ(route({.shape = shape_of(c),
                       .sampled = c.sampled,
                       .number = kNumber,
                       .logits = logits.data(),
                       .key = c.drawn ? key.data() : nullptr,
                       .slots = slots.data(),
                       .sources = sources.data(),
                       .weights = to.data(),
                       .load = load.data(),
                       .balance = sum.data(),
                       .workspace = workspace.data()},
                      nullptr),
                cudaSuccess);
      for (size_t i = 0; i < slots.size(); ++i) ASSERT_EQ(slots[i], want.slots[i]) << i;
      for (size_t i = 0; i < sources.size(); ++i) ASSERT_EQ(sources[i], want.sources[i]) << i;
      for (size_t i = 0; i < to.size(); ++i) ASSERT_NEAR(to[i], weights[i], 2e-6) << i;
      for (size_t i = 0; i < load.size(); ++i) ASSERT_NEAR(load[i], want.load[i], 2e-7) << i;
      ASSERT_NEAR(sum[0], balance, 1e-5 * balance);
    });
  }
}

TEST(RoutingKernel, IsTheReferencesGradient) {
  for (const Case& c : kCases)
    for (const double scale : {0.0, 8.0}) {
      SCOPED_TRACE(testing::Message() << c.s.rows << " rows to " << c.s.top_k << " of " << c.s.experts);
      const std::vector<double> values = logits_of(c);
      const auto routed = reference::route(c.s, values, nullptr, /*sampled=*/false, kNumber);
      const std::vector<float> d = numbers(c.s.choices(), 9);
      const auto want =
          reference::route_gradient(c.s, values, routed.slots, routed.load, doubles(d), 0.5 * (scale == 0 ? 1 : scale));
      const Operand<float> logits = padded(values, c.s.experts, c.stride);
      Operand<int32_t> slots;
      for (const double slot : routed.slots) slots.push_back(static_cast<int32_t>(slot));
      Operand<float> load, dweights;
      for (const double v : routed.load) load.push_back(static_cast<float>(v));
      for (const float v : d) dweights.push_back(v);
      Operand<double> scales;
      scales.push_back(scale);
      on_host::in_all_orders([&] {
        Buffer<float> dlogits(logits.size());
        ASSERT_EQ(route_grad({.shape = shape_of(c),
                              .logits = logits.data(),
                              .slots = slots.data(),
                              .load = load.data(),
                              .dweights = dweights.data(),
                              .balance_coefficient = 0.5,
                              .loss_scale = scale == 0 ? nullptr : scales.data(),
                              .dlogits = dlogits.data()},
                             nullptr),
                  cudaSuccess);
        for (size_t i = 0; i < dlogits.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / c.stride, e = static_cast<int64_t>(i) % c.stride;
          const double expected = e < c.s.experts ? want[static_cast<size_t>(row * c.s.experts + e)] : 0;
          ASSERT_NEAR(dlogits[i], expected, e < c.s.experts ? 1e-4 : 0) << i;
        }
      });
    }
}

TEST(RoutingKernel, RefusesWhatMakesNoSense) {
  const RouteShape good{4, 2, 16, 2, 1};
  const auto refused = [&](auto change) {
    RouteShape s = good;
    change(s);
    return route({.shape = s}, nullptr) == cudaErrorInvalidValue &&
           route_grad({.shape = s}, nullptr) == cudaErrorInvalidValue;
  };
  EXPECT_TRUE(refused([](auto& s) { s.rows = 0; }));
  EXPECT_TRUE(refused([](auto& s) { s.rows = kMostRoutedRows + 1; }));
  EXPECT_TRUE(refused([](auto& s) { s.experts = 0; }));
  EXPECT_TRUE(refused([](auto& s) { s.experts = s.stride = kMostExperts + 1; }));
  EXPECT_TRUE(refused([](auto& s) { s.stride = 1; }));
  EXPECT_TRUE(refused([](auto& s) { s.capacity = 0; }));
  EXPECT_TRUE(refused([](auto& s) { s.capacity = 5; }));
  EXPECT_TRUE(refused([](auto& s) { s.top_k = 3; }));
  EXPECT_TRUE(refused([](auto& s) {
    s.experts = 1;
    s.top_k = 2;
  }));
  EXPECT_EQ(route({.shape = good, .sampled = true}, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ct::kernels
