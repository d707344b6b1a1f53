// A lowered program: one rank's operations for a micro-batch and for an update, over values that plan_memory() places
// and to_text() prints.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "plan/shards.h"

namespace ct {

/// Computation runs in order; communication runs in order on its own queue, in parallel with computation. A
/// communication starts when all computation before it in the program is done; a computation waits for the
/// communications that it depends on. The update's gathers may overlap the next forward pass.
struct Step {
  Op op;
  int time = 0;    // number of the graph's operation: the clock of live ranges, the same in micro and last
  int after = -1;  // computation: waits for this program's communications up to this number; -1: for none
  bool is_recompute =
      false;              // computation: recomputes values of an earlier step that were not kept, with the same bits
  bool merged = false;    // computation: by the kernel of the step before, at its time (engine/bind.cpp sets this)
  int after_update = -1;  // in micro and last: like `after`, for communications of the preceding update
};
using Program = std::vector<Step>;

/// The assignment of the global batch's micro-batches 0..S-1 to ranks (comm/reduction/tree_sum.h: one tree for any
/// number of ranks).
enum class Assignment : uint8_t {
  contiguous,  // rank r computes r*A .. r*A+A-1 and contributes one finished subtree
  in_turn,     // micro-step j of rank r is micro-batch j*N + r; ranks reduce at every micro-step
};

/// ZeRO's options; the model and the transport determine absent ones.
struct ZeroOptions {
  int64_t reduce_bucket_size = 0;     // elements; 0: absent
  int64_t allgather_bucket_size = 0;  // elements; 0: absent
  int64_t persistence_threshold = 0;  // stage 3: vectors of at most this many elements stay whole
  bool offload_optimizer = false;     // masters and moments are in host memory
};

struct Distribution {
  int ranks = 1;
  int rank = 0;
  int accumulation = 1;  // micro-steps per rank and step
  int zero_stage = 0;
  bool reproducible = true;
  ZeroOptions zero;
  DType wire = DType::f32;  // of gradients between hosts; other types only if bits may depend on ranks
  int micro_batches() const { return ranks * accumulation; }
  /// With one rank every stage is stage 0.
  int effective_stage() const { return ranks == 1 ? 0 : zero_stage; }
  Assignment assignment() const;
  /// The global micro-batch that `rank` computes at `micro_step`.
  int micro_batch(int rank, int micro_step) const;
};

/// The kinds of training state: the f32 masters, their exponential moving average, or a moment of an optimizer.
enum class StateKind : uint8_t { weights, ema, moment };
/// Weights and their average include running statistics; moments of an optimizer do not. The average of what is frozen
/// is itself, so only weights have it.
constexpr bool has_statistics(StateKind kind) { return kind != StateKind::moment; }

/// Which parameters have a state: all, the learnt ones, the learnt matrices and convolutions, or the other learnt ones.
enum class Scope : uint8_t { all, learnt, matrices, others };
inline bool is_matrix(const Parameter& p) { return p.learns() && (p.shape.size() == 2 || p.shape.size() == 4); }
inline bool is_in(Scope scope, const Parameter& p) {
  switch (scope) {
    case Scope::all:
      return true;
    case Scope::learnt:
      return p.learns();
    case Scope::matrices:
      return is_matrix(p);
    case Scope::others:
      return p.learns() && !is_matrix(p);
  }
  fail(ExitCode::bug, "internal error: no such scope");
}

/// A buffer of training state on this rank, with all elements or those that the rank owns.
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
  Program refresh;  // runs after masters were written from outside: updates the weights in compute type
  Program micro;    // every micro-step of a step but the last; for evaluation, the only program
  Program last;
  Program update;
  FlatLayout flat;
  Shards shards;
  Distribution distribution;
  // `params`: the weights in compute type, all or (stage 3) those that this rank owns.
  ValueId params = kNone, grads = kNone, schedule = kNone, scalars = kNone;
  ValueId loss_scale = kNone;  // LossScaleState; kNone: there is none
  LossScaleState first_loss_scale;
  std::vector<HeldState> states;  // the masters first, then their average, if there is one

  const Value& operator[](ValueId id) const { return values[static_cast<size_t>(id)]; }
  bool has_ema() const { return states.size() > 1 && states[1].kind == StateKind::ema; }
};

/// The value that owns a view's memory, and the byte offset of the view in it.
struct Origin {
  ValueId value;
  int64_t byte_offset;
};
Origin origin(const std::vector<Value>& values, ValueId id);

int64_t stored_bytes(const Value& value);

/// How many operations read each value, or a view of it.
std::vector<int> count_readers(const Program& steps, const std::vector<Value>& values);

}  // namespace ct
