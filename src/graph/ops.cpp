#include "graph/ops.h"

#include <utility>

namespace ct {

namespace {
/// Operands without those that are not wanted (kNone).
Ids present(Ids ids) {
  std::erase(ids, kNone);
  return ids;
}
}  // namespace

Ids BatchNorm::reads() const {
  return mean == kNone ? present({x, residual, w, b, running_mean, running_var}) : present({x, residual, w, b});
}
Ids BatchNormGrad::reads() const { return present({x, y, dy, w, b, mean, var}); }
Ids BatchNormGrad::writes() const { return present({dx, dresidual, dw, db, batch_mean, batch_var}); }

Ids Attention::reads() const { return present({qkv, temperature}); }
Ids AttentionGrad::reads() const { return present({qkv, temperature, log_sum_exp, dy}); }
Ids LayerNorm::reads() const { return present({x, residual, w, b}); }
Ids LayerNorm::writes() const { return present({sum, y, mean, rstd}); }
Ids LayerNormGrad::reads() const { return present({x, dy, dsum, w, mean, rstd}); }
Ids LayerNormGrad::writes() const { return present({dx, dw, db}); }
Ids Route::writes() const { return present({slots, sources, weights, load, balance}); }
Ids RouteGrad::reads() const { return present({logits, slots, load, dweights, loss_scale}); }
Ids Combine::reads() const {
  Ids ids = from;
  ids.insert(ids.end(), {slots, weights});
  return present(std::move(ids));
}
Ids CombineGradWeights::reads() const {
  Ids ids = from;
  ids.insert(ids.end(), {slots, dy});
  return ids;
}
Ids SoftmaxCrossEntropy::reads() const { return present({logits, labels, loss_scale, second_labels, second_shares}); }

Ids TreePush::reads() const {
  Ids ids{leaf, counter};
  ids.insert(ids.end(), levels.begin(), levels.end());
  return ids;
}
Ids TreePush::writes() const { return reads(); }

Ids reads_of(const Update& update) {
  Ids ids{update.scalars};
  for (const UpdateSlice& s : update.slices) {
    ids.insert(ids.end(), {s.masters, s.grads});
    ids.insert(ids.end(), s.states.begin(), s.states.end());
  }
  ids.push_back(update.ratios);
  return present(std::move(ids));
}
Ids writes_of(const Update& update, bool writes_states) {
  Ids ids;
  for (const UpdateSlice& s : update.slices) {
    ids.push_back(s.masters);
    if (writes_states) ids.insert(ids.end(), s.states.begin(), s.states.end());
    ids.push_back(s.copy);
  }
  return present(std::move(ids));
}
Ids LambMoments::reads() const {
  Ids ids{scalars};
  for (const Slice& s : slices) ids.insert(ids.end(), {s.masters, s.grads, s.exp_avg, s.exp_avg_sq});
  return ids;
}
Ids LambMoments::writes() const {
  Ids ids{weight_sums, update_sums};
  for (const Slice& s : slices) ids.insert(ids.end(), {s.exp_avg, s.exp_avg_sq});
  return ids;
}
Ids MuonMomentum::reads() const {
  Ids ids{scalars};
  for (const Slice& s : slices) ids.insert(ids.end(), {s.grads, s.momentum_buffer});
  return ids;
}
Ids MuonMomentum::writes() const {
  Ids ids;
  for (const Slice& s : slices) ids.insert(ids.end(), {s.grads, s.momentum_buffer});
  return ids;
}
Ids Blend::reads() const {
  Ids ids{scalars};
  for (const Slice& s : slices) ids.insert(ids.end(), {s.masters, s.sums});
  return ids;
}
Ids Blend::writes() const {
  Ids ids;
  for (const Slice& s : slices) ids.insert(ids.end(), {s.masters, s.copy});
  return present(std::move(ids));
}
Ids Ema::reads() const {
  Ids ids{scalars};
  for (const Slice& s : slices) ids.insert(ids.end(), {s.masters, s.average});
  return ids;
}
Ids Ema::writes() const {
  Ids ids;
  for (const Slice& s : slices) ids.push_back(s.average);
  return ids;
}

namespace {
template <class F>
auto visit_op(const Op& op, F f) {
  return std::visit([&](const auto& kind) { return std::visit(f, kind); }, op);
}
}  // namespace

std::string_view name_of(const Op& op) {
  return visit_op(op, [](const auto& o) -> std::string_view {
    if constexpr (requires { o.name(); }) return o.name();
    return o.kName;
  });
}
Ids reads(const Op& op) {
  return visit_op(op, [](const auto& o) { return o.reads(); });
}
Ids writes(const Op& op) {
  return visit_op(op, [](const auto& o) { return o.writes(); });
}

Ids StepControl::reads() const {
  Ids ids{sums, schedule, scalars};
  if (loss_scale != kNone) ids.push_back(loss_scale);
  return ids;
}

}  // namespace ct
