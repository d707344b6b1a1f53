// The residual stream of a transformer: the layer norm before the next branch adds the previous branch's result, in one
// pass over memory.
#pragma once

#include <string>

#include "base/error.h"
#include "graph/graph.h"

namespace ct {

class ResidualStream {
 public:
  ResidualStream(Graph& g, ValueId x, double eps = 1e-5) : g_(g), x_(x), eps_(eps) {}

  /// The normalised stream, the input of the next branch.
  ValueId norm(const std::string& name) {
    if (branch_ == kNone) return g_.layer_norm(x_, name, {.eps = eps_});
    const auto [sum, y] = g_.add_layer_norm(branch_, x_, name, {.eps = eps_});
    x_ = sum;
    branch_ = kNone;
    return y;
  }
  void add(ValueId branch) {
    check(branch_ == kNone, "two branches without a layer norm between them");
    branch_ = branch;
  }
  /// Replaces the stream by `x`.
  void restart(ValueId x) {
    check(branch_ == kNone, "another stream, where a branch is still to be added to this one");
    x_ = x;
  }
  /// Keeps only token 0 for all further computation.
  void take_token() {
    check(branch_ == kNone, "a token of a stream to which a branch is still to be added");
    x_ = g_.take_token(x_);
  }

 private:
  Graph& g_;
  ValueId x_, branch_ = kNone;
  double eps_;
};

}  // namespace ct
