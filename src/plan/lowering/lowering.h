// The lowering of one graph: lower.cpp says in which order things come, the files beside this one how each is made.
// First values and their places (values.cpp, parameters.cpp, gradients.cpp), then the programs that compute and
// communicate (passes.cpp) and update (update.cpp).
#pragma once

#include <functional>
#include <limits>
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
  Lowered training(const UpdateRule& rule);
  Lowered evaluation();

 private:
  // ---- values (values.cpp)

  ValueId add(Value value);
  /// Peers read it, if there are any.
  Home shared() const { return out_.distribution.ranks > 1 ? Home::shared : Home::resident; }
  ValueId buffer(const std::string& name, int64_t bytes, Account account, Home home = Home::resident);
  ValueId floats(const std::string& name, int64_t numel, Account account, Home home = Home::resident);
  void place(ValueId id, ValueId base, int64_t byte);
  ValueId view(ValueId base, int64_t byte, int64_t numel, DType dtype = DType::f32);
  void take_operations();

  // ---- memory for arithmetic (recompute.cpp)

  void recompute_units();
  std::set<ValueId> kept() const;

  // ---- what layers compute with, and f32 masters (parameters.cpp)

  void place_params();
  std::vector<size_t> by_place() const;
  void place_masters();
  HeldState state(StateKind kind, const std::string& name);

  // ---- gradients and their sum (gradients.cpp)

  /// Units whose gradients are reduced together, and the collectives that do it.
  struct Group {
    Range range;            // of the flat order
    ValueId whole = kNone;  // holds it from `first` on
    int64_t first = 0;
    std::vector<Range> cuts;                                   // what one collective takes
    int ready = -1, needed = std::numeric_limits<int>::max();  // operations that write it last, first
    ValueId counter = kNone;                                   // of its TreePush
    Ids levels;
    int pending = -1;  // number of the latest collective on it in the program being written
  };

  void scale_loss(const LossScaleOptions& options);
  Range units_range(const Range& units) const;
  void place_gradients();
  void add_levels();
  void reduce(Program& program, Group& group, bool last);
  int64_t grad_byte(int64_t element) const;

  // ---- forward and backward (passes.cpp)

  void emit(Program& program, ComputeOp op, int after = -1, bool again = false);
  void communicate(Program& program, CommOp op);
  /// The first operation of a pass, forward or backward, that uses a unit's parameters.
  struct Use {
    int unit, first;
  };
  std::vector<Use> uses() const;
  void compute(Program& program, bool last);
  void wait_for_update(Program& program) const;

  // ---- the update (update.cpp)

  /// A run of elements that are updated alike, wherever its parts lie on this rank.
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
  void update_parameters(const Optimizer& optimizer, const std::vector<optim::ParameterGroup>& groups);
  void update_average(const EmaOptions& options);

  const Graph& graph_;
  const ZeroRow& zero_;
  bool separate_masters_ = false;  // layers compute in another type than f32
  /// An operation of the graph, in the order of a micro-step.
  struct Planned {
    ComputeOp op;
    int unit;            // of the forward pass: whose part it is; -1: of none
    bool again = false;  // repeats one of the forward pass
  };
  std::vector<Planned> ops_;
  std::vector<Run> whole_, packed_;  // all elements in f32; what this rank owns
  std::vector<Run> shard_runs_;      // stage 3: what this rank owns in the form that layers compute with
  std::vector<std::vector<Run>> unit_place_;
  std::vector<ValueId> unit_value_;
  std::vector<Run> persistent_;
  ValueId persistent_value_ = kNone;
  std::vector<Group> groups_;
  std::vector<UpdateRange> rules_;
  int time_ = 0, queue_ = 0;
  Lowered out_;
};

}  // namespace ct
