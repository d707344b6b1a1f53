#include "plan/lower.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "plan/step_scalars.h"

namespace ct {
namespace {

/// ZeRO (Rajbhandari et al., arXiv 1910.02054) as a table: what each rank keeps whole, and what meets when.
struct ZeroRow {
  bool whole_params, whole_grads, whole_states;
  enum class Reduce : uint8_t { all_reduce_last, scatter_last, scatter_every } after_backward;
  bool gather_after_update;
  bool built;
};
constexpr ZeroRow kZero[] = {
    {true, true, true, ZeroRow::Reduce::all_reduce_last, false, true},
    {true, true, false, ZeroRow::Reduce::scatter_last, true, false},
    {true, false, false, ZeroRow::Reduce::scatter_every, true, false},
    {false, false, false, ZeroRow::Reduce::scatter_every, false, false},
};

class Lowering {
 public:
  explicit Lowering(const Graph& graph) : graph_(graph) {
    out_.values = graph.values();
    out_.ports = graph.ports;
    alias_flattened();
  }

  Lowered training(const UpdateRule& rule, const Distribution& distribution) {
    const int stage = distribution.zero_stage;
    check(stage >= 0 && stage <= 3, "ZeRO stage ", stage);
    if (!kZero[stage].built)
      fail(ExitCode::usage, "zero_optimization.stage ", stage, " is not supported by this version; use stage 0");
    out_.distribution = distribution;
    out_.flat = flatten_parameters(graph_);
    out_.params = flat_buffer("params");
    out_.grads = flat_buffer("grads");
    for (size_t i = 0; i < graph_.parameters().size(); ++i) {
      place(graph_.parameters()[i].value, out_.params, out_.flat.parameters[i].begin);
      place(graph_.parameters()[i].grad, out_.grads, out_.flat.parameters[i].begin);
    }
    compute_steps(out_.micro);
    compute_steps(out_.last);
    sum_gradients();
    update(rule);
    return std::move(out_);
  }

  Lowered evaluation(const FlatLayout& flat) {
    out_.flat = flat;
    out_.params = flat_buffer("params");
    for (size_t i = 0; i < graph_.parameters().size(); ++i)
      place(graph_.parameters()[i].value, out_.params, flat.parameters[i].begin);
    compute_steps(out_.micro);
    return std::move(out_);
  }

 private:
  ValueId add(Value value) {
    out_.values.push_back(std::move(value));
    return static_cast<ValueId>(out_.values.size() - 1);
  }
  ValueId flat_buffer(const std::string& name) {
    return add({.name = name, .shape = {out_.flat.numel}, .home = Home::resident});
  }
  void place(ValueId id, ValueId base, int64_t offset) {
    out_.values[static_cast<size_t>(id)].base = base;
    out_.values[static_cast<size_t>(id)].offset = offset;
  }

  /// A flattened image whose rows need no padding is the image itself: a view, and no operation.
  void alias_flattened() {
    const auto alias = [this](ValueId from, ValueId to) {
      if (graph_[from].shape.stored() != graph_[to].shape.stored()) return false;
      place(to, from, 0);
      return true;
    };
    for (const ComputeOp& op : graph_.ops()) {
      bool dropped = false;
      if (const auto* flat = std::get_if<Flatten>(&op)) dropped = alias(flat->x, flat->y);
      if (const auto* flat = std::get_if<FlattenGrad>(&op)) dropped = alias(flat->dy, flat->dx);
      if (!dropped) ops_.push_back(op);
    }
  }
  void compute_steps(Program& program) {
    for (const ComputeOp& op : ops_) program.push_back({op});
  }

  /// Gradients of micro-batches are the leaves of a sum that is added in one canonical tree, over micro-steps and over
  /// ranks.
  void sum_gradients() {
    const Distribution& d = out_.distribution;
    if (d.dealing() == Dealing::in_turn) {
      out_.micro.push_back({CommOp{ReduceScatter{out_.grads, false}}});
      out_.last.push_back({CommOp{ReduceScatter{out_.grads, true}}});
      out_.last.push_back({CommOp{AllGather{out_.grads}}});
      return;
    }
    if (d.accumulation > 1) {
      const ValueId counter = add({.name = "leaves", .shape = {1}, .dtype = DType::i32, .home = Home::resident});
      Ids levels;
      const int level_count = static_cast<int>(std::bit_width(static_cast<unsigned>(d.accumulation - 1)));
      for (int k = 0; k < level_count; ++k) levels.push_back(flat_buffer("partial sum " + std::to_string(k)));
      out_.micro.push_back({ComputeOp{TreePush{out_.grads, counter, levels, false}}});
      out_.last.push_back({ComputeOp{TreePush{out_.grads, counter, levels, true}}});
    }
    if (d.ranks > 1) out_.last.push_back({CommOp{AllReduce{out_.grads, {0, out_.flat.numel}}}});
  }

  void update(const UpdateRule& rule) {
    const ValueId sums = add({.name = "chunk square sums",
                              .shape = {static_cast<int64_t>(out_.flat.chunks.size())},
                              .dtype = DType::f64,
                              .home = Home::resident});
    const int64_t row = sizeof(ScheduleRow) / sizeof(double);
    out_.schedule =
        add({.name = "schedule", .shape = {kScheduleWindow * row}, .dtype = DType::f64, .home = Home::resident});
    out_.scalars = add({.name = "step scalars",
                        .shape = {static_cast<int64_t>(sizeof(StepScalars))},
                        .dtype = DType::u8,
                        .home = Home::resident});
    const auto emit = [this](ComputeOp op) { out_.update.push_back({std::move(op)}); };
    emit(SquareSums{out_.grads, sums, out_.flat.chunks});
    emit(StepControl{sums, out_.schedule, out_.scalars, rule.clip, out_.distribution.micro_batches()});

    const auto ranges = decay_ranges(graph_, out_.flat, rule.decay_vectors || rule.weight_decay == 0);
    if (const auto* adam = std::get_if<AdamRule>(&rule.optimizer)) {
      const ValueId m = state("exp_avg"), v = state("exp_avg_sq");
      for (const DecayRange& r : ranges)
        emit(Adam{out_.params, out_.grads, m, v, out_.scalars, r.range, adam->beta1, adam->beta2, adam->eps,
                  r.decays ? rule.weight_decay : 0, adam->mode});
    } else {
      const SgdRule& sgd = std::get<SgdRule>(rule.optimizer);
      const ValueId m = sgd.momentum != 0 ? state("momentum_buffer") : kNone;
      for (const DecayRange& r : ranges)
        emit(Sgd{out_.params, out_.grads, m, out_.scalars, r.range, sgd.momentum, r.decays ? rule.weight_decay : 0,
                 sgd.nesterov});
    }
  }
  ValueId state(const std::string& name) {
    const ValueId id = flat_buffer(name);
    out_.states.push_back({name, id});
    return id;
  }

  const Graph& graph_;
  std::vector<ComputeOp> ops_;
  Lowered out_;
};

}  // namespace

Lowered lower_training(const Graph& graph, const UpdateRule& rule, const Distribution& distribution) {
  return Lowering(graph).training(rule, distribution);
}

Lowered lower_evaluation(const Graph& graph, const FlatLayout& flat) { return Lowering(graph).evaluation(flat); }

}  // namespace ct
