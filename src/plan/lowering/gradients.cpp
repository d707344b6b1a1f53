#include <algorithm>
#include <bit>

#include "plan/lowering/lowering.h"

namespace ct {

/// What writes a gradient of a part of the loss.
template <class Change>
void Lowering::for_losses(Change change) {
  for (Planned& planned : ops_)
    std::visit(
        [&](auto& op) {
          if constexpr (requires { op.predivide; }) change(op);
        },
        planned.op);
}

void Lowering::scale_loss(const LossScaleOptions& options) {
  out_.first_loss_scale = {.scale = options.initial, .hysteresis_left = options.hysteresis};
  out_.loss_scale = buffer("loss scale", sizeof(LossScaleState), MemoryCategory::other);
  for_losses([this](auto& loss) { loss.loss_scale = out_.loss_scale; });
}

/// Every gradient follows from the losses', which are divided in their place.
void Lowering::predivide(const Predivision& rule) {
  predivided_ = rule.whole ? out_.distribution.micro_batches() : rule.factor;
  for_losses([this](auto& loss) { loss.predivide = predivided_; });
}

Range Lowering::units_range(const Range& units) const {
  const auto& all = out_.flat.units;
  return {all[static_cast<size_t>(units.begin)].begin, all[static_cast<size_t>(units.end) - 1].end};
}

/// What this rank owns; where peers read it, all are as long as the longest.
ValueId Lowering::gradient_shard() {
  if (!gathers_gradients_) return floats("gradient shard", bytes_of(packed_) / kFloat, MemoryCategory::gradients);
  int64_t largest = 0;
  for (int r = 0; r < out_.distribution.ranks; ++r)
    largest = std::max(largest, bytes_of(out_.shards.packed(r, whole_)));
  return floats("gradient shard", largest / kFloat, MemoryCategory::gradients, shared());
}

void Lowering::place_gradients() {
  const FlatLayout& flat = out_.flat;
  const Distribution& d = out_.distribution;
  const BucketSize bucket = bucket_size(flat, d.zero.reduce_bucket_size);
  if (zero_.whole_grads)
    out_.grads = floats("gradients", flat.changing, MemoryCategory::gradients, shared());
  else
    out_.grads = gradient_shard();

  for (const Range& units : unit_groups(flat, bucket, /*backward=*/true)) {
    Group group{.range = units_range(units)};
    if (group.range.size() == 0) continue;  // all of it is frozen
    group.cuts = cut(flat, group.range, bucket.most);
    if (zero_.whole_grads) {
      group.whole = out_.grads;
    } else {
      const std::string name = "gradients of " + graph_.units()[static_cast<size_t>(units.begin)];
      group.whole = floats(name, group.range.size(), MemoryCategory::gradients, MemorySpace::exchange);
      group.first = group.range.begin;
    }
    for (size_t i = 0; i < flat.parameters.size(); ++i) {
      const Range& p = flat.parameters[i];
      if (p.begin < group.range.begin || p.begin >= group.range.end) continue;
      const ValueId grad = graph_.parameters()[i].grad;
      place(grad, group.whole, (p.begin - group.first) * kFloat);
      for (size_t k = 0; k < ops_.size(); ++k) {
        const Ids written = writes(Op{ops_[k].op});
        if (std::find(written.begin(), written.end(), grad) == written.end()) continue;
        group.ready = std::max(group.ready, static_cast<int>(k));
        group.needed = std::min(group.needed, static_cast<int>(k));
      }
    }
    groups_.push_back(std::move(group));
  }
  if (d.assignment() == Assignment::contiguous && d.accumulation > 1) add_levels();
}

/// Partial sums of the micro-steps that one rank adds by itself: a binary counter, or just the sum so far.
void Lowering::add_levels() {
  const auto a = static_cast<unsigned>(out_.distribution.accumulation);
  const int count = out_.distribution.reproducible ? static_cast<int>(std::bit_width(a - 1)) : 1;
  for (int k = 0; k < count; ++k) {
    const ValueId level = floats("partial sum " + std::to_string(k), out_.flat.changing, MemoryCategory::partial_sums);
    for (Group& g : groups_) g.levels.push_back(view(level, g.range.begin * kFloat, g.range.size()));
  }
  for (Group& g : groups_)
    g.counter = add({.name = "leaves",
                     .shape = {1},
                     .dtype = DType::i32,
                     .space = MemorySpace::resident,
                     .category = MemoryCategory::other});
}

/// Gradients of micro-batches are the leaves of a sum that is added in one canonical tree, over micro-steps and
/// ranks.
void Lowering::reduce(Program& program, Group& group, bool last) {
  const Distribution& d = out_.distribution;
  const bool contiguous = d.assignment() == Assignment::contiguous;
  if (group.counter != kNone)
    emit(program, TreePush{view(group.whole, (group.range.begin - group.first) * kFloat, group.range.size()),
                           group.counter, group.levels, last});
  if (d.ranks == 1 || (contiguous && !last)) return;
  for (const Range& part : group.cuts) {
    const Run place{part, DType::f32, (part.begin - group.first) * kFloat};
    if (contiguous && zero_.whole_states) {
      communicate(program, AllReduce{view(group.whole, place.byte, part.size())});
      continue;
    }
    const ValueId shard = zero_.whole_grads ? group.whole : out_.grads;
    communicate(program, ReduceScatter{group.whole, shard, {place}, last});
    if (last && zero_.whole_states)
      communicate(program, AllGather{group.whole, group.whole, {place}, AllGather::What::grads});
  }
  group.pending = queue_ - 1;
}

int64_t Lowering::grad_byte(int64_t element) const {
  return zero_.whole_grads ? element * kFloat : byte_of(packed_, element);
}

}  // namespace ct
