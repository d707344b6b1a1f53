#include "plan/lower.h"

#include <algorithm>

#include "base/error.h"
#include "plan/lowering/lowering.h"

namespace ct {
Lowering::Lowering(const Graph& graph, const Distribution& d, Recompute recompute)
    : graph_(graph), zero_(kZeroStages[d.effective_stage()]) {
  check(d.zero_stage >= 0 && d.zero_stage <= 3, "ZeRO stage ", d.zero_stage);
  out_.values = graph.values();
  out_.ports = graph.ports;
  out_.distribution = d;
  out_.flat = flatten_parameters(graph_);
  out_.shards = Shards(out_.flat, d.ranks);
  whole_ = {{{0, out_.flat.changing}, DType::f32, 0}};
  packed_ = out_.shards.packed(d.rank, whole_);
  separate_masters_ = d.zero.offload_optimizer || std::any_of(out_.flat.runs.begin(), out_.flat.runs.end(),
                                                              [](const Run& r) { return r.dtype != DType::f32; });
  take_operations();
  if (recompute == Recompute::blocks) recompute_units();
  place_params();
}

LoweredProgram Lowering::training(const UpdateRule& rule) {
  place_masters();
  if (rule.ema) out_.states.push_back(state(StateKind::ema, "ema"));
  if (rule.loss_scale) scale_loss(*rule.loss_scale);
  predivide(rule.predivision);
  gathers_gradients_ = std::holds_alternative<optim::Muon>(rule.optimizer);
  place_gradients();
  compute(out_.micro, /*last=*/false);
  compute(out_.last, /*last=*/true);
  update(rule);
  if (rule.ema) update_average(*rule.ema);
  if (zero_.gather_after_update || persistent_value_ != kNone)
    for (Program* program : {&out_.micro, &out_.last}) wait_for_update(*program);
  queue_ = 0;
  gather_params(out_.refresh, [this](const Range& range) {
    for (const Slice& s : slices(range))
      if (s.copy != kNone) emit(out_.refresh, Cast{s.masters, s.copy});
  });
  refresh_frozen();
  return std::move(out_);
}

LoweredProgram Lowering::evaluation() {
  compute(out_.micro, /*last=*/false);
  return std::move(out_);
}

LoweredProgram lower_training(const Graph& graph, const UpdateRule& rule, const Distribution& distribution,
                              Recompute recompute) {
  return Lowering(graph, distribution, recompute).training(rule);
}

LoweredProgram lower_evaluation(const Graph& graph, const Distribution& distribution) {
  // What training keeps whole beside its shards is another buffer; evaluation gathers everything from the shards.
  Distribution d = distribution;
  d.zero.persistence_threshold = 0;
  return Lowering(graph, d, Recompute::none).evaluation();
}

}  // namespace ct
