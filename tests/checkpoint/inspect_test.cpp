#include "checkpoint/inspect.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/crc32c.h"
#include "checkpoint/samples.h"
#include "checkpoint/weights_hash.h"

namespace ct {
namespace {

template <class T, size_t N>
TensorView view(const std::string& name, StoredType type, const std::array<T, N>& values) {
  return {name, type, {static_cast<int64_t>(N)}, std::as_bytes(std::span(values))};
}

TEST(Inspect, Summary) {
  const std::array<float, 5> x = {3, -4, 0, NAN, INFINITY};
  const auto s = summarise({view("x", StoredType::f32, x)}).at(0);
  EXPECT_EQ(s.elements, 5u);
  EXPECT_EQ(s.nonfinite, 2u);
  EXPECT_EQ(s.min, -4);
  EXPECT_EQ(s.max, 3);
  EXPECT_DOUBLE_EQ(s.mean, -1.0 / 3);
  EXPECT_EQ(s.l2, 5);
  EXPECT_EQ(s.crc, crc32c(std::as_bytes(std::span(x))));
}

TEST(Inspect, ElementsOfEveryType) {
  const std::array<uint16_t, 5> half = {0x3c00, 0xc000, 0x0001, 0x7bff, 0xfc00};
  const auto h = view("h", StoredType::f16, half);
  EXPECT_EQ(element(h, 0), 1);
  EXPECT_EQ(element(h, 1), -2);
  EXPECT_EQ(element(h, 2), std::ldexp(1, -24));
  EXPECT_EQ(element(h, 3), 65504);
  EXPECT_EQ(element(h, 4), -INFINITY);
  EXPECT_EQ(element(view("b", StoredType::bf16, std::array<uint16_t, 1>{0xbfc0}), 0), -1.5);
  EXPECT_EQ(element(view("i", StoredType::i32, std::array<int32_t, 1>{-7}), 0), -7);
  EXPECT_EQ(element(view("l", StoredType::i64, std::array<int64_t, 1>{-7}), 0), -7);
  EXPECT_EQ(element(view("u", StoredType::u8, std::array<uint8_t, 1>{200}), 0), 200);
  EXPECT_EQ(element(view("d", StoredType::f64, std::array<double, 1>{0.1}), 0), 0.1);
}

TEST(Tensors, AllFinite) {
  const auto finite = [](StoredType type, auto value, size_t at) {
    std::vector<decltype(value)> values(37, 1);
    values[at] = value;
    return all_finite(type, std::as_bytes(std::span(values)));
  };
  using F = std::numeric_limits<float>;
  for (const size_t at : {size_t{0}, size_t{20}, size_t{36}}) {
    for (const float x : {F::infinity(), -F::infinity(), F::quiet_NaN(), -F::quiet_NaN(), F::signaling_NaN()})
      EXPECT_FALSE(finite(StoredType::f32, x, at)) << x;
    for (const float x : {F::max(), F::lowest(), F::denorm_min(), -0.0f})
      EXPECT_TRUE(finite(StoredType::f32, x, at)) << x;
    EXPECT_FALSE(finite(StoredType::f64, std::numeric_limits<double>::infinity(), at));
    EXPECT_TRUE(finite(StoredType::f64, 1e300, at));
    EXPECT_FALSE(finite(StoredType::bf16, uint16_t{0x7f80}, at));
    EXPECT_TRUE(finite(StoredType::bf16, uint16_t{0x7c00}, at));
    EXPECT_FALSE(finite(StoredType::f16, uint16_t{0xfc00}, at));
    EXPECT_TRUE(finite(StoredType::f16, uint16_t{0x7bff}, at));
    EXPECT_TRUE(finite(StoredType::i32, int32_t{0x7f800000}, at));
  }
  EXPECT_TRUE(all_finite(StoredType::f32, {}));
}

TEST(Inspect, Differences) {
  using Kind = TensorDifference::Kind;
  const std::array<float, 3> x = {1, 2, 3}, y = {1, 5, -1};
  const std::array<float, 2> z = {1, 2};
  const auto d = differences({view("same", StoredType::f32, x), view("v", StoredType::f32, x),
                              view("s", StoredType::f32, x), view("a", StoredType::f32, x)},
                             {view("b", StoredType::f32, x), view("s", StoredType::f32, z),
                              view("v", StoredType::f32, y), view("same", StoredType::f32, x)});
  ASSERT_EQ(d.size(), 5u);
  EXPECT_EQ(d[0].kind, Kind::only_first);
  EXPECT_EQ(d[1].kind, Kind::only_second);
  EXPECT_EQ(d[2].kind, Kind::shape_or_type);
  EXPECT_EQ(d[3].kind, Kind::same_bytes);
  EXPECT_EQ(d[4].kind, Kind::values);
  EXPECT_EQ(d[4].differing, 2u);
  EXPECT_EQ(d[4].largest, 4);
  EXPECT_EQ(d[4].l2, 5);
}

TEST(WeightsHash, IsThatOfTheSortedElements) {
  // printf 'abcdefgh' | sha256sum
  const std::array<char, 4> first = {'a', 'b', 'c', 'd'}, second = {'e', 'f', 'g', 'h'};
  const TensorView a{"A", StoredType::f32, {1}, std::as_bytes(std::span(first))};
  const TensorView b{"a", StoredType::f32, {1}, std::as_bytes(std::span(second))};
  const TensorView n{"bn.num_batches_tracked", StoredType::i64, {}, std::as_bytes(std::span("1234567", 8))};
  const std::string hash = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
  EXPECT_EQ(weights_sha256({a, b}), hash);
  EXPECT_EQ(weights_sha256({b, n, a}), hash);
  EXPECT_EQ(weights_sha256({b, {"a.ema", StoredType::f32, b.shape, b.data}, a}), hash);
  // A name alone makes no average.
  EXPECT_EQ(weights_sha256({{"a.ema", StoredType::f32, b.shape, b.data}, a}), hash);
  EXPECT_NE(error_of(ExitCode::checkpoint, [&] { weights_sha256({{"x", StoredType::f16, {2}, a.data}}); }), "");
}

TEST(WeightsHash, StateHashSeesNamesShapesAndState) {
  const std::array<float, 2> x = {1, 2};
  const StoredTensor stored{view("x", StoredType::f32, x)};
  LogicalTensor t{.name = "x", .shape = {2}, .pieces = {{0, 2, &stored, nullptr}}};
  const std::string first = state_sha256({t}, {{"step", 1}});
  EXPECT_EQ(first, state_sha256({t}, {{"step", 1}}));
  EXPECT_NE(first, state_sha256({t}, {{"step", 2}}));
  const StoredTensor upper{{"x", StoredType::f32, {1}, stored.data.first(4)}};
  const StoredTensor lower{{"x", StoredType::f32, {1}, stored.data.subspan(4)}};
  t.pieces = {{0, 1, &upper, nullptr}, {1, 2, &lower, nullptr}};
  EXPECT_EQ(first, state_sha256({t}, {{"step", 1}})) << "however it is cut";
  t.shape = {2, 1};
  EXPECT_NE(first, state_sha256({t}, {{"step", 1}}));
}

}  // namespace
}  // namespace ct
