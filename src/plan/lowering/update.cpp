#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "plan/lowering/lowering.h"
#include "plan/step_scalars.h"

namespace ct {

std::vector<Lowering::Slice> Lowering::slices(const Range& range) {
  const Distribution& d = out_.distribution;
  std::vector<Slice> found;
  const auto& held = out_.states.front();
  const std::vector<Range> mine = zero_.whole_states ? std::vector<Range>{range} : out_.shards.owned(d.rank, range);
  const std::vector<Run>& compute_form = zero_.whole_params ? out_.flat.runs : shard_runs_;
  for (const UpdateRange& rule : rules_)
    for (const Range& own : mine)
      for (const Run& run : intersection(intersection(compute_form, own), rule.range))
        for (const Run& part : offload_parts(run)) {
          const int64_t n = part.range.size();
          Slice s{part.range, rule};
          s.masters = view(held.value, byte_of(held.held, part.range.begin), n);
          if (separate_masters_) s.copy = view(out_.params, part.byte, n, part.dtype);
          found.push_back(s);
        }
  return found;
}

/// What the host updates travels in parts, so that transfers and arithmetic overlap.
std::vector<Run> Lowering::offload_parts(const Run& run) const {
  constexpr int64_t kPart = int64_t{1} << 20;
  if (!out_.distribution.zero.offload_optimizer) return {run};
  std::vector<Run> parts;
  for (int64_t begin = run.range.begin; begin < run.range.end; begin += kPart)
    for (const Run& part : intersection({run}, {begin, std::min(begin + kPart, run.range.end)})) parts.push_back(part);
  return parts;
}

/// Everything, bucket by bucket: act on a part, then gather it where ranks keep params whole but own a part each.
void Lowering::gather_params(Program& program, const std::function<void(const Range&)>& act) {
  const FlatLayout& flat = out_.flat;
  const Range all{0, flat.changing};
  if (!zero_.gather_after_update) {
    act(all);
    if (persistent_value_ != kNone)
      communicate(program, AllGather{persistent_value_, out_.params, persistent_, AllGather::What::params});
    return;
  }
  const BucketSize bucket = bucket_size(flat, out_.distribution.zero.allgather_bucket_size);
  for (const Range& units : unit_groups(flat, bucket, /*backward=*/false))
    for (const Range& part : cut(flat, units_range(units), bucket.most)) {
      act(part);
      communicate(program, AllGather{out_.params, out_.params, intersection(flat.runs, part), AllGather::What::params});
    }
}

Lowering::States Lowering::add_states(const std::vector<std::string>& names, Scope scope) {
  States states;
  for (const std::string& name : names) {
    states.emplace_back();
    if (!name.empty()) out_.states.push_back(*(states.back() = state(StateKind::moment, name, scope)));
  }
  return states;
}

UpdateSlice Lowering::update_slice(const Slice& s, const States& states) {
  const auto [weight_decay, lr_scale] = s.rule.treatment;
  UpdateSlice slice{.masters = s.masters,
                    .grads = view(out_.grads, grad_byte(s.range.begin), s.range.size()),
                    .copy = s.copy,
                    .weight_decay = weight_decay,
                    .lr_scale = lr_scale,
                    .tensor = s.rule.tensor};
  for (const auto& held : states)
    slice.states.push_back(held ? view(held->value, byte_of(held->held, s.range.begin), s.range.size()) : kNone);
  return slice;
}

void Lowering::update_slices(const std::function<void(const std::vector<Slice>&)>& emit_learnt) {
  gather_params(out_.update, [&](const Range& range) {
    std::vector<Slice> learnt;
    std::vector<Blend::Slice> blended;
    for (const Slice& s : slices(range)) {
      if (!s.rule.statistic)
        learnt.push_back(s);
      else
        blended.push_back(
            {s.masters, view(out_.grads, grad_byte(s.range.begin), s.range.size()), s.copy, s.rule.momentum});
    }
    if (!learnt.empty()) emit_learnt(learnt);
    if (!blended.empty()) emit(out_.update, Blend{std::move(blended), out_.scalars, out_.distribution.micro_batches()});
  });
}

template <class Optimizer>
void Lowering::update_parameters(const Optimizer& optimizer, const UpdateRule& rules) {
  constexpr bool kMuon = std::is_same_v<Optimizer, optim::Muon>, kTrusts = requires { &Optimizer::trust; };
  const Treatments treatments = optim::treatments(graph_, rules.groups, optimizer.weight_decay, rules.layer_decay);
  if constexpr (kMuon || kTrusts)
    if (std::ranges::any_of(rules.groups, [](const auto& group) { return group.rows.has_value(); }))
      fail(ExitCode::usage,
           "optimizer.groups: rows of a matrix cannot be treated apart by an optimizer that updates it as one (Lamb, "
           "LARS, Muon); leave out 'rows', or use another optimizer.type");
  rules_ = update_ranges(graph_, out_.flat, treatments, kMuon || kTrusts ? Tensors::apart : Tensors::together);
  if constexpr (kMuon) {
    update_by_muon(optimizer);
  } else {
    const auto rule = optimizer.rule();
    static_assert(rule.kTrusted == kTrusts);
    const States states = add_states(optim::states_of(rule), Scope::learnt);
    ValueId ratios = kNone;
    if constexpr (kTrusts) ratios = add_ratios(optimizer, treatments, states);
    update_slices([&](const std::vector<Slice>& learnt) {
      Update update{.scalars = out_.scalars, .ratios = ratios};
      for (const Slice& s : learnt) update.slices.push_back(update_slice(s, states));
      emit(out_.update, optim::update_by(rule, std::move(update)));
    });
  }
}

/// Of all that this rank updates, when all of it is new; what the update gathers may travel meanwhile.
void Lowering::update_average(const EmaOptions& options) {
  const HeldState masters = out_.states[0], average = out_.states[1];
  Ema op{.scalars = out_.scalars, .decay = options.decay, .start = options.start};
  for (const Run& run : average.held)
    for (const Run& part : intersection(masters.held, run.range)) {
      const int64_t n = part.range.size();
      op.slices.push_back({.masters = view(masters.value, part.byte, n),
                           .average = view(average.value, byte_of(average.held, part.range.begin), n)});
    }
  if (!op.slices.empty()) emit(out_.update, std::move(op));
}

void Lowering::update(const UpdateRule& rule) {
  const Distribution& d = out_.distribution;
  gradient_sums_ = chunk_sums("chunk square sums");
  const int64_t row = sizeof(ScheduleRow) / sizeof(double);
  out_.schedule = add({.name = "schedule",
                       .shape = {kScheduleWindow * row},
                       .dtype = DType::f64,
                       .space = MemorySpace::resident,
                       .category = MemoryCategory::other});
  out_.scalars = buffer("step scalars", sizeof(StepScalars), MemoryCategory::other);

  queue_ = 0;
  emit(out_.update, SquareSums{out_.grads, gradient_sums_,
                               own_chunks([this](int64_t element) { return grad_byte(element) / kFloat; })});
  const int after = gather_chunks(gradient_sums_);
  emit(out_.update,
       StepControl{gradient_sums_, out_.schedule, out_.scalars, rule.clip, d.micro_batches(), out_.loss_scale,
                   rule.loss_scale.value_or(LossScaleOptions{}), predivided_},
       after);

  std::visit([&](const auto& optimizer) { update_parameters(optimizer, rule); }, rule.optimizer);
}

}  // namespace ct
