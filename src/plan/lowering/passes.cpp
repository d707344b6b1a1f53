#include <algorithm>
#include <set>

#include "plan/lowering/lowering.h"

namespace ct {

void Lowering::emit(Program& program, ComputeOp op, int after, bool is_recompute) {
  program.push_back({std::move(op), time_, after, is_recompute});
}

void Lowering::communicate(Program& program, CommOp op) {
  program.push_back({std::move(op), time_});
  ++queue_;
}

std::vector<Lowering::Use> Lowering::uses() const {
  std::vector<int> unit_of(out_.values.size(), -1);
  for (const Parameter& p : graph_.parameters())
    if (out_.values[static_cast<size_t>(p.value)].base == unit_value_[static_cast<size_t>(p.unit)])
      unit_of[static_cast<size_t>(p.value)] = p.unit;
  std::vector<Use> found;
  std::set<int> open;
  for (size_t k = 0; k < ops_.size(); ++k) {
    if (std::holds_alternative<SoftmaxCrossEntropy>(ops_[k].op)) open.clear();  // the backward pass begins
    for (ValueId id : reads(Op{ops_[k].op})) {
      const int unit = unit_of[static_cast<size_t>(id)];
      if (unit < 0) continue;
      if (open.insert(unit).second) found.push_back({unit, static_cast<int>(k)});
    }
  }
  return found;
}

void Lowering::compute(Program& program, bool last) {
  queue_ = 0;
  for (Group& g : groups_) g.pending = -1;
  const std::vector<Use> gathers = zero_.whole_params ? std::vector<Use>{} : uses();
  std::vector<int> gathered(gathers.size(), -1);  // number of the collective
  size_t begun = 0;
  const auto gather_until = [&](size_t count) {
    for (; begun < std::min(count, gathers.size()); ++begun) {
      const auto unit = static_cast<size_t>(gathers[begun].unit);
      gathered[begun] = queue_;
      communicate(program, AllGather{unit_value_[unit], out_.params, unit_place_[unit], AllGather::What::params});
    }
  };
  for (size_t k = 0; k < ops_.size(); ++k) {
    time_ = static_cast<int>(k);
    int after = -1;
    for (size_t g = 0; g < gathers.size(); ++g) {
      if (gathers[g].first != time_) continue;
      // Its own, if nothing came before, and the next, a unit early; a unit that is used twice in a row must first be
      // done with.
      const bool used_twice = g + 1 < gathers.size() && gathers[g + 1].unit == gathers[g].unit;
      gather_until(used_twice ? g + 1 : g + 2);
      after = std::max(after, gathered[g]);
    }
    // Two groups' gradients at a time: the one that is written, and the one before it, which is on its way.
    for (size_t g = 2; g < groups_.size(); ++g)
      if (!zero_.whole_grads && groups_[g].needed == time_) after = std::max(after, groups_[g - 2].pending);
    emit(program, ops_[k].op, after, ops_[k].is_recompute);
    for (Group& g : groups_)
      if (g.ready == time_) reduce(program, g, last);
  }
}

/// Layers compute with what the update gathers: each waits for the latest gather of its parameters.
void Lowering::wait_for_update(Program& program) const {
  const FlatLayout& flat = out_.flat;
  std::vector<int> gather_of(out_.values.size(), -1);  // by value
  int number = 0;
  for (const Step& step : out_.update) {
    const auto* comm = std::get_if<CommOp>(&step.op);
    if (comm == nullptr) continue;
    if (const auto* gather = std::get_if<AllGather>(comm); gather && gather->what == AllGather::What::params)
      for (size_t i = 0; i < flat.parameters.size(); ++i)
        if (!intersection(gather->place, flat.parameters[i]).empty())
          gather_of[static_cast<size_t>(graph_.parameters()[i].value)] = number;
    ++number;
  }
  int waited = -1;
  for (Step& step : program) {
    int needs = -1;
    for (ValueId id : reads(step.op)) needs = std::max(needs, gather_of[static_cast<size_t>(id)]);
    if (needs > waited) step.after_update = waited = needs;
  }
}

}  // namespace ct
