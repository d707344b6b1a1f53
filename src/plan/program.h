// A lowered program: for one rank, the exact operations of a micro-batch and of an update, over values whose places are
// known. plan_memory() places them; to_text() prints them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "plan/shards.h"

namespace ct {

/// Computation runs in order; communication runs in order on a queue of its own, beside it. A communication starts when
/// all computation before it in the program is done; a computation waits for the communications that it depends on. The
/// update's gathers may go on beside the forward pass that follows.
struct Step {
  Op op;
  int time = 0;    // which operation of the graph it belongs to: the clock of live ranges, the same in micro and last
  int after = -1;  // computation: the number of this program's latest communication that must be complete; -1: none
  bool is_recompute = false;  // computation: writes what an earlier step wrote, to the same bits; meanwhile it was dead
  int after_update = -1;      // micro, last: the same of the update program, which may have run before
};
using Program = std::vector<Step>;

/// How the global batch's micro-batches 0..S-1 reach the ranks (comm/reduction/tree_sum.h: one tree for any number of
/// ranks).
enum class Assignment : uint8_t {
  contiguous,  // rank r computes r*A .. r*A+A-1 and contributes one finished subtree
  in_turn,     // micro-step j of rank r is micro-batch j*N + r; leaves meet at every micro-step
};

/// Absent: what suits the model and the transport.
struct ZeroOptions {
  int64_t reduce_bucket_size = 0;     // elements; 0: absent
  int64_t allgather_bucket_size = 0;  // elements; 0: absent
  int64_t persistence_threshold = 0;  // stage 3: vectors of at most this many elements stay whole
  bool offload_optimizer = false;     // masters and moments lie in the host's memory
};

struct Distribution {
  int ranks = 1;
  int rank = 0;
  int accumulation = 1;  // micro-steps a rank and step
  int zero_stage = 0;
  bool reproducible = true;
  ZeroOptions zero;
  DType wire = DType::f32;  // of gradients between hosts, where bits may depend on ranks
  int micro_batches() const { return ranks * accumulation; }
  /// With one rank every stage is stage 0.
  int effective_stage() const { return ranks == 1 ? 0 : zero_stage; }
  Assignment assignment() const;
  /// The global micro-batch that `rank` computes at `micro_step`.
  int micro_batch(int rank, int micro_step) const;
};

/// What a buffer of training state is: the f32 masters, their exponential moving average, or an optimizer's moment.
enum class StateKind : uint8_t { weights, ema, moment };
/// Running statistics are among the weights, and so among their average, but not among an optimizer's moments.
constexpr bool has_statistics(StateKind kind) { return kind != StateKind::moment; }

/// Of which parameters there is a state: all, those that are learnt, of these the matrices and convolutions, or all
/// others.
enum class Scope : uint8_t { all, learnt, matrices, others };
inline bool is_matrix(const Parameter& p) { return !p.statistic && (p.shape.size() == 2 || p.shape.size() == 4); }
inline bool is_in(Scope scope, const Parameter& p) {
  switch (scope) {
    case Scope::all:
      return true;
    case Scope::learnt:
      return !p.statistic;
    case Scope::matrices:
      return is_matrix(p);
    case Scope::others:
      return !p.statistic && !is_matrix(p);
  }
  fail(ExitCode::bug, "internal error: no such scope");
}

/// A buffer of training state on this rank and the elements that it holds: all, or what the rank owns.
struct HeldState {
  StateKind kind = StateKind::weights;
  std::string name;  // "weights", "ema", or PyTorch's: exp_avg, exp_avg_sq, momentum_buffer
  ValueId value = kNone;
  std::vector<Run> held;
  Scope scope = Scope::all;
};

struct LoweredProgram {
  std::vector<Value> values;
  Ports ports;
  Program refresh;  // once, when masters have been written from outside: brings what layers compute with up to date
  Program micro;    // every micro-step of a step but the last; for evaluation, the only program
  Program last;
  Program update;
  FlatLayout flat;
  Shards shards;
  Distribution distribution;
  // What layers compute with: `params` holds it whole, or (stage 3) what this rank owns of it.
  ValueId params = kNone, grads = kNone, schedule = kNone, scalars = kNone;
  ValueId loss_scale = kNone;  // LossScaleState; kNone: there is none
  LossScaleState first_loss_scale;
  std::vector<HeldState> states;  // the masters first, then their average, if there is one

  const Value& operator[](ValueId id) const { return values[static_cast<size_t>(id)]; }
  bool has_ema() const { return states.size() > 1 && states[1].kind == StateKind::ema; }
};

/// The value that owns the memory behind a view, and where the view begins in it, in bytes.
struct Origin {
  ValueId value;
  int64_t byte_offset;
};
Origin origin(const std::vector<Value>& values, ValueId id);

int64_t stored_bytes(const Value& value);

}  // namespace ct
