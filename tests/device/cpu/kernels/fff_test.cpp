#include "device/cpu/kernels/fff.h"

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/testing.h"
#include "selftest/reference/bf16.h"
#include "selftest/reference/fff.h"

namespace ct::cpu {
namespace {

class FffKernel : public KernelTest {};
CT_KERNEL_SUITE(FffKernel);

template <class T>
T element(double x) {
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(x);
  else
    return reference::to_bf16(x);
}
template <class T>
std::vector<T> rows_of(const std::vector<double>& dense, int64_t columns) {
  std::vector<T> rows;
  for (const double x : with_stride(dense, columns, padded(columns))) rows.push_back(element<T>(x));
  return rows;
}

/// A layer in memory.
template <class T>
struct Layer {
  static constexpr int64_t kRows = 7, kIn = 20, kOut = 130;
  FffTrees trees;
  std::vector<double> dense_x, dense_w_in, dense_b_in;
  Buffer<T> x, w_in, w_out, y;
  Buffer<float> b_in;
  Buffer<std::byte> workspace;

  explicit Layer(const FffTrees& t)
      : trees(t),
        dense_x(normal(kRows * kIn, 1)),
        dense_w_in(normal(static_cast<size_t>(t.width() * kIn), 2)),
        dense_b_in(normal(static_cast<size_t>(t.width()), 3)),
        x(rows_of<T>(dense_x, kIn), 16),
        w_in(rows_of<T>(dense_w_in, kIn), 16),
        w_out(rows_of<T>(normal(static_cast<size_t>(kOut * t.width()), 4), t.width()), 16),
        y(static_cast<size_t>(kRows * padded(kOut))),
        b_in(dense_b_in, 16),
        workspace(fff_workspace_bytes(t, kIn, kOut, sizeof(T))) {}

  std::vector<T> run(int64_t first, int64_t rows) {
    fff(FffArgs<T>{.trees = trees,
                   .rows = rows,
                   .in = kIn,
                   .out = kOut,
                   .x = x.data() + first * padded(kIn),
                   .w_in = w_in,
                   .b_in = b_in,
                   .w_out = w_out,
                   .y = y,
                   .workspace = workspace});
    EXPECT_TRUE(y.intact() && workspace.intact());
    return {y.data(), y.data() + rows * padded(kOut)};
  }
};

const FffTrees kForms[] = {{1, 4, 2}, {2, 2, 3}};

template <class T>
void expect_rows_of_their_own(const FffTrees& trees) {
  Layer<T> layer(trees);
  const std::vector<T> all = layer.run(0, Layer<T>::kRows);
  const int64_t stride = padded(Layer<T>::kOut);
  for (int64_t row = 0; row < Layer<T>::kRows; ++row)
    EXPECT_EQ(layer.run(row, 1), std::vector<T>(all.begin() + row * stride, all.begin() + (row + 1) * stride)) << row;
}

/// Whatever rows go their ways beside it.
TEST_P(FffKernel, ARowGivesTheSameBitsInAnyCompany) {
  for (const FffTrees& trees : kForms) {
    expect_rows_of_their_own<float>(trees);
    expect_rows_of_their_own<uint16_t>(trees);
  }
}

/// Units that no row visits may hold anything: nobody computes with them.
TEST_P(FffKernel, ComputesNothingThatIsNotVisited) {
  for (const FffTrees& trees : kForms) {
    Layer<float> layer(trees);
    const std::vector<float> before = layer.run(0, Layer<float>::kRows);
    const int64_t units = trees.width(), in = Layer<float>::kIn;
    const std::vector<double> sums =
        reference::linear(Layer<float>::kRows, in, units, layer.dense_x, layer.dense_w_in, layer.dense_b_in);
    std::vector<bool> seen(static_cast<size_t>(units));
    for (int64_t row = 0; row < Layer<float>::kRows; ++row) {
      const std::vector<double> mask = reference::visited(trees, sums.data() + row * units);
      for (size_t unit = 0; unit < mask.size(); ++unit) seen[unit] = seen[unit] || mask[unit] != 0;
    }
    int64_t unseen = 0;
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (int64_t unit = 0; unit < units; ++unit) {
      if (seen[static_cast<size_t>(unit)]) continue;
      ++unseen;
      layer.b_in[unit] = layer.w_in[unit * padded(in)] = kNan;
      for (int64_t o = 0; o < Layer<float>::kOut; ++o) layer.w_out[o * padded(units) + unit] = kNan;
    }
    EXPECT_GT(unseen, 0);
    EXPECT_EQ(layer.run(0, Layer<float>::kRows), before);
  }
}

}  // namespace
}  // namespace ct::cpu
