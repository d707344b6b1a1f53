// The lowering of one graph. lower.cpp defines the order of its parts, and the other files of this folder contain them:
// first values and their places (values.cpp, parameters.cpp, gradients.cpp), then the programs for the passes
// (passes.cpp; recompute.cpp selects the recomputed activations) and for the update (update.cpp; trust.cpp and muon.cpp
// for some optimizers).
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plan/buckets.h"
#include "plan/lower.h"
#include "plan/zero_stages.h"

namespace ct {

inline constexpr int64_t kFloat = sizeof(float);

class Lowering {
 public:
  Lowering(const Graph& graph, const Distribution& d, Recompute recompute);
  LoweredProgram training(const UpdateRule& rule);
  LoweredProgram evaluation();

 private:
  // ---- values (values.cpp)

  ValueId add(Value value);
  /// The space of values that other ranks read, if there are any.
  MemorySpace shared() const { return out_.distribution.ranks > 1 ? MemorySpace::shared : MemorySpace::resident; }
  ValueId buffer(const std::string& name, int64_t bytes, MemoryCategory category,
                 MemorySpace space = MemorySpace::resident);
  ValueId floats(const std::string& name, int64_t numel, MemoryCategory category,
                 MemorySpace space = MemorySpace::resident);
  void place(ValueId id, ValueId base, int64_t byte);
  ValueId view(ValueId base, int64_t byte, int64_t numel, DType dtype = DType::f32);
  void take_operations();

  // ---- memory for arithmetic (recompute.cpp)

  void recompute_units();
  std::set<ValueId> kept() const;

  // ---- weights in compute type, and f32 masters (parameters.cpp)

  void place_params();
  std::vector<size_t> by_place() const;
  void place_masters();
  HeldState state(StateKind kind, const std::string& name, Scope scope = Scope::all);
  std::vector<Run> runs_of(Scope scope) const;
  void refresh_frozen();

  // ---- gradients and their sum (gradients.cpp)

  /// Units whose gradients are reduced together, and the collectives that do it.
  struct Group {
    Range range;            // of the flat order
    ValueId whole = kNone;  // contains the range from element `first` on
    int64_t first = 0;
    std::vector<Range> cuts;                                   // one for each collective
    int ready = -1, needed = std::numeric_limits<int>::max();  // operations that write it last, first
    ValueId counter = kNone;                                   // of its TreePush
    Ids levels;
    int pending = -1;  // number of the latest collective on it in the program being written
  };

  void scale_loss(const LossScaleOptions& options);
  void predivide(const Predivision& rule);
  template <class Change>
  void for_losses(Change change);
  Range units_range(const Range& units) const;
  ValueId gradient_shard();
  void place_gradients();
  void add_levels();
  void reduce(Program& program, Group& group, bool last);
  int64_t grad_byte(int64_t element) const;

  // ---- forward and backward (passes.cpp)

  void emit(Program& program, ComputeOp op, int after = -1, bool is_recompute = false);
  void communicate(Program& program, CommOp op);
  /// The first operation of a pass, forward or backward, that uses a unit's parameters.
  struct Use {
    int unit, first;
  };
  std::vector<Use> uses() const;
  void compute(Program& program, bool last);
  void wait_for_update(Program& program) const;

  // ---- the update (update.cpp)

  /// A run of elements with one update rule, and its values on this rank.
  struct Slice {
    Range range;
    UpdateRange rule;
    ValueId masters = kNone, copy = kNone;
  };

  std::vector<Slice> slices(const Range& range);
  std::vector<Run> offload_parts(const Run& run) const;
  void gather_params(Program& program, const std::function<void(const Range&)>& act);
  void update(const UpdateRule& rule);
  template <class Optimizer>
  void update_parameters(const Optimizer& optimizer, const UpdateRule& rules);
  /// The states of an optimizer, in its order; nullopt for those that it does not keep.
  using States = std::vector<std::optional<HeldState>>;
  States add_states(const std::vector<std::string>& names, Scope scope);
  UpdateSlice update_slice(const Slice& s, const States& states);
  /// Bucket by bucket, updates running statistics, and calls `emit_learnt` for all other slices.
  void update_slices(const std::function<void(const std::vector<Slice>&)>& emit_learnt);

  // ---- norms of whole tensors (trust.cpp)

  ValueId chunk_sums(const std::string& name);
  std::vector<SquareSums::Chunk> own_chunks(const std::function<int64_t(int64_t)>& place) const;
  int gather_chunks(ValueId sums);
  /// A part of one tensor that this rank updates.
  struct Part {
    Range range;
    UpdateRange rule;
  };
  std::vector<Part> own_parts() const;
  /// The trust ratios of all tensors.
  using Treatments = std::vector<optim::ParameterTreatment>;
  ValueId add_ratios(const optim::Lars& lars, const Treatments& treatments, const States& states);
  ValueId add_ratios(const optim::Lamb& lamb, const Treatments& treatments, const States& states);
  std::vector<TrustRatios::Tensor> tensors(const Treatments& treatments) const;
  ValueId ratios();

  // ---- Muon (muon.cpp)

  /// A matrix, or a convolution seen as one, in the flat order.
  struct Matrix {
    Range storage;
    int64_t rows, columns, stride;
    int owner = 0;
    int64_t byte = 0;  // in the buffer of whole matrices
  };
  void update_by_muon(const optim::Muon& muon);
  /// Replaces the gradients of matrices by directions; returns the number of the last communication.
  int add_directions(const optim::Muon& muon, const States& momenta);
  std::vector<Matrix> matrices_in(const Range& range) const;
  void assign_owners(std::vector<Matrix>& matrices) const;
  int orthogonalize(const optim::Muon& muon, ValueId whole, const std::vector<Matrix>& matrices, int after);
  struct MuonScratch {
    ValueId left = kNone, product = kNone, gram = kNone, polynomial = kNone;
  };
  void add_muon_scratch(const std::vector<Matrix>& matrices);

  void update_average(const EmaOptions& options);

  const Graph& graph_;
  const ZeroRow& zero_;
  bool separate_masters_ = false;  // layers compute in a type other than f32
  /// An operation of the graph, in the order of a micro-step.
  struct Planned {
    ComputeOp op;
    int unit;                   // forward pass: the operation's unit; -1: none
    bool is_recompute = false;  // repeats an operation of the forward pass
  };
  std::vector<Planned> ops_;
  std::vector<Run> whole_, packed_;  // all elements that training changes, in f32; those that this rank owns
  std::vector<Run> shard_runs_;      // stage 3: what params contains, in the layout that layers read
  std::vector<Run> frozen_runs_;     // the frozen elements in params, in that layout: all of them, in every stage
  std::vector<std::vector<Run>> unit_place_;
  std::vector<ValueId> unit_value_;
  std::vector<Run> persistent_;
  ValueId persistent_value_ = kNone;
  std::vector<Group> groups_;
  std::vector<UpdateRange> rules_;
  double predivided_ = 1;           // divisor of the leaves of the gradient's sum
  ValueId gradient_sums_ = kNone;   // by chunk
  bool gathers_gradients_ = false;  // the update gathers gradients, so other ranks read this rank's shard
  MuonScratch muon_scratch_;
  int time_ = 0, queue_ = 0;
  LoweredProgram out_;
};

}  // namespace ct
