#include <algorithm>
#include <iterator>

#include "plan/lowering/lowering.h"

namespace ct {

namespace {
bool is_layer(const ComputeOp& op) {
  return std::visit([](const auto& o) { return o.kFacts.role == Role::layer; }, op);
}
}  // namespace

/// What the forward pass leaves for the backward pass: all that units hand on, and vectors such as the statistics of a
/// batch, which are small.
std::set<ValueId> Lowering::kept() const {
  std::set<ValueId> stays;
  std::vector<int> unit_of(out_.values.size(), -1);
  for (const auto& [op, unit, is_recompute] : ops_) {
    if (std::holds_alternative<SoftmaxCrossEntropy>(op)) {
      for (ValueId id : reads(Op{op})) stays.insert(origin(out_.values, id).value);
      break;
    }
    for (ValueId id : reads(Op{op})) {
      const ValueId value = origin(out_.values, id).value;
      if (unit_of[static_cast<size_t>(value)] != unit) stays.insert(value);
    }
    for (ValueId id : writes(Op{op})) {
      const ValueId value = origin(out_.values, id).value;
      unit_of[static_cast<size_t>(value)] = unit;
      if (out_.values[static_cast<size_t>(value)].shape.rank() <= 1) stays.insert(value);
    }
  }
  return stays;
}

/// Before the backward pass of a unit come those of its operations again whose results it needs and nothing kept. They
/// write the same values, which therefore have two lives and are dead between them. The last unit's backward pass
/// follows its forward pass at once.
void Lowering::recompute_units() {
  const std::set<ValueId> stays = kept();
  const auto loss =
      std::ranges::find_if(ops_, [](const Planned& p) { return std::holds_alternative<SoftmaxCrossEntropy>(p.op); });
  const int last_unit = std::prev(loss)->unit;

  // The operations whose values are dropped, by value.
  std::vector<const Planned*> writer(out_.values.size(), nullptr);
  for (auto at = ops_.begin(); at != loss; ++at)
    for (ValueId id : writes(Op{at->op})) {
      const ValueId value = origin(out_.values, id).value;
      if (is_layer(at->op) && at->unit != last_unit && !stays.contains(value))
        writer[static_cast<size_t>(value)] = &*at;
    }
  const auto dropped = [&](const ComputeOp& op) {
    std::vector<const Planned*> writers;
    for (ValueId id : reads(Op{op}))
      if (const Planned* from = writer[static_cast<size_t>(origin(out_.values, id).value)]) writers.push_back(from);
    return writers;
  };

  std::vector<std::set<const Planned*>> wanted(graph_.units().size());  // by unit, in the order of the forward pass
  for (auto at = loss; at != ops_.end(); ++at) {
    std::vector<const Planned*> todo = dropped(at->op);
    while (!todo.empty()) {
      const Planned* one = todo.back();
      todo.pop_back();
      if (!wanted[static_cast<size_t>(one->unit)].insert(one).second) continue;
      for (const Planned* before : dropped(one->op)) todo.push_back(before);
    }
  }

  std::vector<Planned> ops(ops_.begin(), std::next(loss));
  for (auto at = std::next(loss); at != ops_.end(); ++at) {
    for (const Planned* first : dropped(at->op)) {
      auto& of_unit = wanted[static_cast<size_t>(first->unit)];
      for (const Planned* one : of_unit) ops.push_back({one->op, one->unit, /*is_recompute=*/true});
      of_unit.clear();
    }
    ops.push_back(*at);
  }
  ops_ = std::move(ops);
}

}  // namespace ct
