#include "bias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "run.h"
#include "typed.h"

namespace ct::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t rows, channels, stride;
  size_t shift = 0;
  size_t elements() const { return static_cast<size_t>(rows * stride); }
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.rows << " x " << c.channels << ", stride " << c.stride << ", shifted by " << c.shift;
}
/// Narrow and wide, dense and padded, unaligned, more than one strip, part or block, none.
const Case kCases[] = {{1, 1, 1},        {5, 6, 6},       {4, 10, 16},   {3, 16, 16},   {70, 33, 48}, {9, 70, 70},
                       {200, 24, 24},    {129, 64, 64},   {64, 8, 8},    {65, 8, 8},    {0, 8, 8},    {3, 0, 16},
                       {200, 24, 24, 1}, {33, 20, 32, 1}, {2, 300, 304}, {300, 16, 16}, {2, 1, 1},    {5, 130, 144}};

/// Rounded numbers, some zero; in pads NaN, which must not matter.
template <class T>
std::vector<float> rows_of(const Case& c, uint32_t which) {
  std::vector<float> v = numbers(c.elements(), which);
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = rounded<T>(i % 7 == which ? 0 : v[i]);
    if (static_cast<int64_t>(i) % c.stride >= c.channels) v[i] = kNaN;
  }
  return v;
}

template <class T>
class Bias : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Bias, Types);

TYPED_TEST(Bias, IsAdded) {
  using T = TypeParam;
  for (const Case& c : kCases)
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(testing::Message() << c << (relu ? ", ReLU" : ""));
      std::vector<float> values = rows_of<T>(c, 1), offsets = numbers(static_cast<size_t>(c.channels), 2);
      if (c.elements() > 3 && c.channels > 0) values[0] = kNaN;
      if (c.channels > 2) offsets[2] = -offsets[2];
      std::vector<float> want(values.size());
      for (size_t i = 0; i < want.size(); ++i)
        if (const auto channel = static_cast<int64_t>(i) % c.stride; channel < c.channels) {
          want[i] = rounded<T>(values[i] + offsets[static_cast<size_t>(channel)]);
          if (relu && want[i] <= 0) want[i] = 0;
        }
      Buffer<float> b(offsets, c.shift);
      on_host::in_all_orders([&] {
        Buffer<T> x(values, c.shift), y(values.size(), c.shift);
        BiasArgs args{.type = Named<T>::kType,
                      .rows = c.rows,
                      .channels = c.channels,
                      .stride = c.stride,
                      .relu = relu,
                      .x = x.data(),
                      .b = b.data(),
                      .y = y.data()};
        ASSERT_EQ(bias(args, nullptr), cudaSuccess);
        expect_same(y.values(), want);
        expect_same(x.values(), values);
        args.y = x.data();
        ASSERT_EQ(bias(args, nullptr), cudaSuccess);
        expect_same(x.values(), want);
      });
    }
}

/// The order that bias.h promises, in f32.
std::vector<float> sums_in_order(const std::vector<float>& g, int64_t rows, int64_t channels, int64_t stride) {
  const int64_t part = std::max<int64_t>(64, (rows + 1023) / 1024), parts = (rows + part - 1) / part;
  const auto in_lanes = [](int64_t n, auto&& value) {
    float lanes[32] = {}, sum = 0;
    for (int64_t i = 0; i < n; ++i) lanes[i % 32] += value(i);
    for (const float lane : lanes) sum += lane;
    return sum;
  };
  std::vector<float> db(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c)
    db[static_cast<size_t>(c)] = in_lanes(parts, [&](int64_t p) {
      return in_lanes(std::min(part, rows - p * part),
                      [&](int64_t r) { return g[static_cast<size_t>((p * part + r) * stride + c)]; });
    });
  return db;
}

template <class T>
void check_grad(const Case& c, bool masked) {
  SCOPED_TRACE(testing::Message() << c << (masked ? ", masked" : ""));
  const std::vector<float> outputs = rows_of<T>(c, 1), grads = rows_of<T>(c, 2);
  std::vector<float> g = grads;
  for (size_t i = 0; i < g.size(); ++i)
    if (masked && outputs[i] <= 0) g[i] = 0;
  const auto channels = static_cast<size_t>(c.channels);
  const std::vector<float> want = sums_in_order(g, c.rows, c.channels, c.stride);
  for (size_t channel = 0; channel < channels; ++channel) {
    double sum = 0, size = 0;
    for (size_t i = channel; i < g.size(); i += static_cast<size_t>(c.stride)) {
      sum += g[i];
      size += std::fabs(g[i]);
    }
    ASSERT_NEAR(want[channel], sum, 1e-6 * size);
  }
  Buffer<T> y(outputs, c.shift), dy(grads, c.shift);
  on_host::in_all_orders([&] {
    Buffer<float> db(channels, c.shift);
    Buffer<float> workspace(bias_grad_workspace_bytes(c.rows, c.channels) / sizeof(float));
    const BiasGradArgs args{.type = Named<T>::kType,
                            .rows = c.rows,
                            .channels = c.channels,
                            .stride = c.stride,
                            .dy = dy.data(),
                            .y = masked ? y.data() : nullptr,
                            .db = db.data(),
                            .workspace = workspace.size() == 0 ? nullptr : workspace.data()};
    ASSERT_EQ(bias_grad(args, nullptr), cudaSuccess);
    expect_same(db.values(), want);
  });
}

TYPED_TEST(Bias, GradientSumsInOneOrder) {
  bool masked = false;  // every other one: both meet wide, narrow and several parts
  for (const Case& c : kCases) {
    check_grad<TypeParam>(c, masked);
    masked = !masked;
  }
}

TEST(BiasGrad, ManyParts) {  // more than lanes: 40; and the most, of rows that do not divide evenly
  check_grad<float>({40 * 64 - 3, 3, 3}, /*masked=*/false);
  EXPECT_EQ(bias_grad_workspace_bytes(64, 5), 0u);
  EXPECT_EQ(bias_grad_workspace_bytes(65, 5), 2 * 5 * sizeof(float));
  EXPECT_EQ(bias_grad_workspace_bytes(1024 * 64, 5), 1024 * 5 * sizeof(float));
  EXPECT_EQ(bias_grad_workspace_bytes(1024 * 64 + 1, 5), 1009 * 5 * sizeof(float));  // parts of 65
  EXPECT_LE(bias_grad_workspace_bytes(1 << 30, 5), 1024 * 5 * sizeof(float));
}

TEST(BiasGrad, NaNReachesItsChannelOnly) {
  std::vector<float> grads(100 * 8, 1.0f), outputs(100 * 8, 1.0f);
  grads[70 * 8 + 3] = kNaN;
  grads[71 * 8 + 5] = kNaN;
  outputs[71 * 8 + 5] = 0;     // cut, so it does not count
  outputs[72 * 8 + 6] = kNaN;  // not cut
  Buffer<float> y(outputs), dy(grads), db(8), workspace(bias_grad_workspace_bytes(100, 8) / sizeof(float));
  const BiasGradArgs args{.type = Type::f32,
                          .rows = 100,
                          .channels = 8,
                          .stride = 8,
                          .dy = dy.data(),
                          .y = y.data(),
                          .db = db.data(),
                          .workspace = workspace.data()};
  ASSERT_EQ(bias_grad(args, nullptr), cudaSuccess);
  expect_same(db.values(), {100, 100, 100, kNaN, 100, 99, 100, 100});
}

}  // namespace
}  // namespace ct::kernels
