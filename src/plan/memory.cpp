#include "plan/memory.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace ct {
namespace {

constexpr int64_t kLine = 64;

/// Lowest offset at which `place` meets no placed neighbour that lives at the same time.
void put(MemoryPlan::Place& place, std::vector<const MemoryPlan::Place*>& placed, int64_t& arena_bytes) {
  int64_t at = 0;
  for (const MemoryPlan::Place* other : placed) {  // sorted by offset
    const bool together = other->first <= place.last && place.first <= other->last;
    if (!together) continue;
    if (at + place.bytes <= other->offset) break;
    at = std::max(at, other->offset + other->bytes);
  }
  place.offset = at;
  arena_bytes = std::max(arena_bytes, at + place.bytes);
  placed.insert(std::upper_bound(placed.begin(), placed.end(), &place,
                                 [](const auto* a, const auto* b) { return a->offset < b->offset; }),
                &place);
}

}  // namespace

MemoryPlan plan_memory(const Lowered& program, const std::vector<size_t>& micro_workspace,
                       const std::vector<size_t>& last_workspace) {
  MemoryPlan plan;
  plan.values.resize(program.values.size());
  const int steps = static_cast<int>(std::max(program.micro.size(), program.last.size()));
  plan.workspace.resize(static_cast<size_t>(steps));
  for (auto& place : plan.values) place.first = steps, place.last = -1;

  for (const auto& [steps_of, workspace] :
       {std::pair{&program.micro, &micro_workspace}, {&program.last, &last_workspace}}) {
    for (size_t i = 0; i < steps_of->size(); ++i) {
      const int now = static_cast<int>(i);
      const auto touch = [&](ValueId id) {
        MemoryPlan::Place& place = plan.values[static_cast<size_t>(origin(program.values, id).value)];
        place.first = std::min(place.first, now);
        place.last = std::max(place.last, now);
      };
      const Step& step = (*steps_of)[i];
      for (ValueId id : reads(step.op)) touch(id);
      for (ValueId id : writes(step.op)) touch(id);
      const int64_t bytes = round_up(i < workspace->size() ? static_cast<int64_t>((*workspace)[i]) : 0, kLine);
      MemoryPlan::Place& scratch = plan.workspace[i];
      scratch = {-1, std::max(scratch.bytes, bytes), now, now};
    }
  }

  std::vector<MemoryPlan::Place*> todo;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Value& value = program.values[i];
    MemoryPlan::Place& place = plan.values[i];
    if (value.base != kNone || value.home == Home::resident || place.last < 0) continue;
    if (value.home != Home::transient) place.first = 0, place.last = steps;  // the host's side keeps its memory
    place.bytes = round_up(stored_bytes(value), kLine) + kLine;
    todo.push_back(&place);
  }
  for (MemoryPlan::Place& scratch : plan.workspace)
    if (scratch.bytes > 0) todo.push_back(&scratch);

  std::stable_sort(todo.begin(), todo.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  std::vector<const MemoryPlan::Place*> placed;
  for (MemoryPlan::Place* place : todo) put(*place, placed, plan.arena_bytes);
  return plan;
}

std::string to_text(const Lowered& program, const MemoryPlan& plan) {
  std::ostringstream out;
  const auto name = [&](ValueId id) {
    const Value& v = program[id];
    return v.name + ":" + std::string(name_of(v.dtype)) + to_string(v.shape);
  };
  const auto list = [&](const char* title, const Program& steps, size_t first = 0) {
    out << title << "\n";
    for (size_t i = first; i < steps.size(); ++i) {
      out << "  " << std::setw(3) << i << "  " << std::left << std::setw(24) << name_of(steps[i].op) << std::right;
      const char* separator = "";
      for (ValueId id : writes(steps[i].op)) out << std::exchange(separator, ", ") << name(id);
      separator = "  <-  ";
      for (ValueId id : reads(steps[i].op)) out << std::exchange(separator, ", ") << name(id);
      out << "\n";
    }
  };
  size_t shared = 0;  // steps that both programs begin with
  while (shared < std::min(program.micro.size(), program.last.size()) &&
         std::holds_alternative<ComputeOp>(program.micro[shared].op) &&
         !std::holds_alternative<TreePush>(std::get<ComputeOp>(program.micro[shared].op)))
    ++shared;
  list("micro (every micro-step but the last)", program.micro);
  list("last (the last micro-step): the same forward and backward pass, then", program.last, shared);
  list("update", program.update);

  out << "arena: " << plan.arena_bytes << " bytes\n";
  out << "  offset      bytes       steps    value\n";
  const auto row = [&](const MemoryPlan::Place& p, const std::string& what) {
    if (p.offset < 0 || p.bytes == 0) return;
    out << "  " << std::left << std::setw(12) << p.offset << std::setw(12) << p.bytes << std::right << std::setw(3)
        << p.first << "-" << std::left << std::setw(5) << p.last << what << std::right << "\n";
  };
  for (size_t i = 0; i < plan.values.size(); ++i) row(plan.values[i], program.values[i].name);
  for (size_t i = 0; i < plan.workspace.size(); ++i)
    row(plan.workspace[i], "(workspace of step " + std::to_string(i) + ")");
  out << "resident:\n";
  for (const Value& v : program.values)
    if (v.home == Home::resident && v.base == kNone) out << "  " << v.name << "  " << stored_bytes(v) << " bytes\n";
  return out.str();
}

}  // namespace ct
