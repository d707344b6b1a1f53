// Scalar reference of a fast feedforward layer: computes all units and masks those that a row does not visit. Dense
// rows, no pads.
#pragma once

#include "graph/fff_trees.h"
#include "selftest/reference/dense.h"
#include "selftest/reference/gelu.h"

namespace ct::reference {

/// A decision of follow(): its margin from the opposite decision.
struct Decision {
  double sum, margin;
};

/// mask[unit] = 1 for the units that a row of sums visits. `decisions` receives those of nodes with children.
template <class T>
std::vector<double> visited(const FffTrees& trees, const T* sums, std::vector<Decision>* decisions = nullptr) {
  std::vector<double> mask(static_cast<size_t>(trees.width()));
  const int64_t group = trees.group();
  for (int tree = 0; tree < trees.count; ++tree) {
    int64_t node = 0, platform = 0, wide = 1;  // node: the first of the level; wide: their number
    for (int level = 0; level <= trees.depth; ++level) {
      const int64_t first = tree * trees.units() + node * group;
      const auto sum = [&](int64_t i) { return real(sums[first + i]); };
      for (int64_t i = 0; i < group; ++i) mask[static_cast<size_t>(first + i)] = 1;
      int64_t move = 0;
      double margin = std::abs(sum(0));
      if (group == 1) {
        move = sum(0) > 0;
      } else {
        for (int64_t i = 1; i < group; ++i)
          if (sum(i) > sum(move)) move = i;
        margin = INFINITY;
        for (int64_t i = 0; i < group; ++i)
          if (i != move) margin = std::min(margin, sum(move) - sum(i));
      }
      if (decisions && level < trees.depth) decisions->push_back({sum(move % group), margin});
      const int64_t next = platform + wide;
      node = (node - platform) * trees.fanout + move + next;
      platform = next;
      wide *= trees.fanout;
    }
  }
  return mask;
}

/// The layer's middle operation, on rows of sums x.
template <class T>
std::vector<T> tree_gelu(const FffTrees& trees, const std::vector<T>& x) {
  const auto width = static_cast<size_t>(trees.width());
  std::vector<T> y = gelu(x);
  for (size_t row = 0; row < x.size(); row += width) {
    const std::vector<double> mask = visited(trees, x.data() + row);
    for (size_t unit = 0; unit < width; ++unit)
      if (mask[unit] == 0) y[row + unit] = 0;
  }
  return y;
}
inline std::vector<double> tree_gelu_gradient(const FffTrees& trees, const std::vector<double>& x,
                                              const std::vector<double>& dy) {
  const auto width = static_cast<size_t>(trees.width());
  std::vector<double> dx = gelu_gradient(x, dy);
  for (size_t row = 0; row < x.size(); row += width) {
    const std::vector<double> mask = visited(trees, x.data() + row);
    for (size_t unit = 0; unit < width; ++unit) dx[row + unit] *= mask[unit];
  }
  return dx;
}

/// x [..][in]; w_in [width][in], b_in [width], w_out [out][width].
template <class T>
std::vector<T> fff(const FffTrees& trees, int64_t in, int64_t out, const std::vector<T>& x, const std::vector<T>& w_in,
                   const std::vector<T>& b_in, const std::vector<T>& w_out) {
  const int64_t rows = static_cast<int64_t>(x.size()) / in;
  return linear(rows, trees.width(), out, tree_gelu(trees, linear(rows, in, trees.width(), x, w_in, b_in)), w_out,
                std::vector<T>(static_cast<size_t>(out)));
}

}  // namespace ct::reference
