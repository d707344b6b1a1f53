// The trees of a fast feedforward layer (Belcak & Wattenhofer, 2023): their units, and the number of units that a row
// visits. Kernels include this too; the functions that they call are constexpr.
#pragma once

#include <cstdint>

namespace ct {

/// Complete trees of one form, side by side. In each tree a row descends from the root to a leaf, and only the units of
/// the nodes on its path contribute to its result. Nodes are numbered level by level. A node with two children has one
/// unit; the row takes the second child if the unit's pre-activation is above 0. With a greater fan-out a node has a
/// unit for each child, and the row takes the child with the largest pre-activation, the first of equal ones.
struct FffTrees {
  int count = 1;   // trees
  int depth = 7;   // levels below the root
  int fanout = 2;  // children of a node

  /// Units of a node.
  constexpr int64_t group() const { return fanout == 2 ? 1 : fanout; }
  /// Units of a tree, and of all.
  constexpr int64_t units() const {
    int64_t nodes = 1, level = 1;
    for (int d = 0; d < depth; ++d) nodes += level *= fanout;
    return nodes * group();
  }
  constexpr int64_t width() const { return count * units(); }
  /// Units that a row visits in all trees.
  constexpr int64_t visited() const { return count * (depth + 1) * group(); }
};

/// Limits of the operations, so that the units of a path fit on the stack.
constexpr int64_t kMostFffUnits = 16384, kMostFffVisited = 512;

}  // namespace ct
