// A lowered program: for one rank, the exact operations of a micro-batch and of an update, over values whose places are
// known. plan_memory() places them; to_text() prints them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/flat.h"

namespace ct {

struct Step {
  Op op;
};
using Program = std::vector<Step>;

/// How the global batch's micro-batches 0..S-1 reach the ranks (comm/tree_sum.h: one tree for any number of ranks).
enum class Dealing : uint8_t {
  contiguous,  // rank r computes r*A .. r*A+A-1 and contributes one finished subtree
  in_turn,     // micro-step j of rank r is micro-batch j*N + r; leaves meet at every micro-step
};

struct Distribution {
  int ranks = 1;
  int accumulation = 1;  // micro-steps a rank and step
  int zero_stage = 0;
  int micro_batches() const { return ranks * accumulation; }
  Dealing dealing() const;
  /// The global micro-batch that `rank` computes at `micro_step`.
  int micro_batch(int rank, int micro_step) const;
};

struct Lowered {
  std::vector<Value> values;
  Ports ports;
  Program micro;  // every micro-step of a step but the last; for evaluation, the only program
  Program last;
  Program update;
  FlatLayout flat;
  Distribution distribution;
  // Residents over the flat order; kNone in an evaluation program, but for params.
  ValueId params = kNone, grads = kNone, schedule = kNone, scalars = kNone;
  struct State {
    std::string name;  // PyTorch's: exp_avg, exp_avg_sq, momentum_buffer
    ValueId value;
  };
  std::vector<State> states;

  const Value& operator[](ValueId id) const { return values[static_cast<size_t>(id)]; }
};

/// The value that owns the memory behind a view, and where the view begins in it, in bytes.
struct Origin {
  ValueId value;
  int64_t byte_offset;
};
Origin origin(const std::vector<Value>& values, ValueId id);

int64_t stored_bytes(const Value& value);

}  // namespace ct
