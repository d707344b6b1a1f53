#include "plan/memory.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace ct {
namespace {

constexpr int64_t kLine = 64;

bool live_at_once(const MemoryPlan::Place& a, const MemoryPlan::Place& b) {
  for (const Range& x : a.lives)
    for (const Range& y : b.lives)
      if (x.begin < y.end && y.begin < x.end) return true;
  return false;
}

/// Lowest offset at which `place` meets no placed neighbour that lives at the same time.
void put(MemoryPlan::Place& place, std::vector<const MemoryPlan::Place*>& placed, int64_t& arena_bytes) {
  int64_t at = 0;
  for (const MemoryPlan::Place* other : placed) {  // sorted by offset
    if (!live_at_once(*other, place)) continue;
    if (at + place.bytes <= other->offset) break;
    at = std::max(at, other->offset + other->bytes);
  }
  place.offset = at;
  arena_bytes = std::max(arena_bytes, at + place.bytes);
  placed.insert(std::upper_bound(placed.begin(), placed.end(), &place,
                                 [](const auto* a, const auto* b) { return a->offset < b->offset; }),
                &place);
}

void place_all(std::vector<MemoryPlan::Place*> todo, int64_t& arena_bytes) {
  std::stable_sort(todo.begin(), todo.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  std::vector<const MemoryPlan::Place*> placed;
  for (MemoryPlan::Place* place : todo) put(*place, placed, arena_bytes);
}

bool in_arena(const Value& value) {
  switch (value.space) {
    case MemorySpace::input:
    case MemorySpace::output:
    case MemorySpace::transient:
    case MemorySpace::exchange:
      return value.base == kNone;
    case MemorySpace::resident:
    case MemorySpace::shared:
    case MemorySpace::host:
      return false;
  }
  fail(ExitCode::bug, "internal error: no such memory space");
}

/// The lives of a program's values, from what its steps touch.
class Lives {
 public:
  Lives(const std::vector<Value>& values, std::vector<MemoryPlan::Place>& places, int64_t end)
      : values_(values), places_(places), end_(end) {}

  void add(const Program& steps) {
    open_.assign(values_.size(), Range{-1, -1});
    int communications = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      const bool communication = std::holds_alternative<CommOp>(step.op);
      const int64_t until = communication ? completion(steps, i, communications++) : step.time + 1;
      // What is gathered or computed again was dead since its last use.
      const bool fresh =
          step.is_recompute || (communication && std::holds_alternative<AllGather>(std::get<CommOp>(step.op)));
      for (ValueId id : writes(step.op)) touch(id, step.time, until, fresh);
      for (ValueId id : reads(step.op)) touch(id, step.time, until, /*fresh=*/false);
    }
    for (size_t i = 0; i < open_.size(); ++i) close(i);
  }

 private:
  /// When the communication at steps[i], the program's `number`-th, is known to be complete.
  int64_t completion(const Program& steps, size_t i, int number) const {
    for (size_t k = i + 1; k < steps.size(); ++k)
      if (steps[k].after >= number) return std::max<int64_t>(steps[k].time, steps[i].time + 1);
    return end_;
  }
  void touch(ValueId id, int64_t from, int64_t until, bool fresh) {
    const auto i = static_cast<size_t>(origin(values_, id).value);
    if (fresh) close(i);
    Range& life = open_[i];
    if (life.begin < 0) life = {from, until};
    life.end = std::max(life.end, until);
  }
  void close(size_t i) {
    if (open_[i].begin >= 0) places_[i].lives.push_back(open_[i]);
    open_[i] = {-1, -1};
  }

  const std::vector<Value>& values_;
  std::vector<MemoryPlan::Place>& places_;
  int64_t end_;
  std::vector<Range> open_;
};

}  // namespace

MemoryPlan plan_memory(const LoweredProgram& program, const std::vector<size_t>& micro_workspace,
                       const std::vector<size_t>& last_workspace) {
  MemoryPlan plan;
  plan.values.resize(program.values.size());
  int64_t end = 0;
  for (const Program* steps : {&program.micro, &program.last})
    for (const Step& step : *steps) end = std::max<int64_t>(end, step.time + 1);
  Lives lives(program.values, plan.values, end);
  lives.add(program.micro);
  lives.add(program.last);

  plan.workspace.resize(static_cast<size_t>(end));
  for (const auto& [steps, workspace] : {std::pair{&program.micro, &micro_workspace}, {&program.last, &last_workspace}})
    for (size_t i = 0; i < workspace->size(); ++i) {
      const int64_t time = (*steps)[i].time;
      MemoryPlan::Place& scratch = plan.workspace[static_cast<size_t>(time)];
      scratch.bytes = std::max(scratch.bytes, round_up(static_cast<int64_t>((*workspace)[i]), kLine));
      scratch.lives = {{time, time + 1}};
    }

  std::vector<MemoryPlan::Place*> arena, exchange;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Value& value = program.values[i];
    MemoryPlan::Place& place = plan.values[i];
    if (!in_arena(value) || place.lives.empty()) continue;
    if (value.space == MemorySpace::input || value.space == MemorySpace::output)
      place.lives = {{0, end}};  // the host's side
    place.bytes = round_up(stored_bytes(value), kLine) + kLine;
    (value.space == MemorySpace::exchange ? exchange : arena).push_back(&place);
  }
  for (MemoryPlan::Place& scratch : plan.workspace)
    if (scratch.bytes > 0) arena.push_back(&scratch);
  place_all(std::move(arena), plan.arena_bytes);
  place_all(std::move(exchange), plan.exchange_bytes);
  return plan;
}

int64_t& MemoryUse::of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::weights:
      return weights;
    case MemoryCategory::gradients:
    case MemoryCategory::partial_sums:
      return gradients;
    case MemoryCategory::optimizer:
      return optimizer;
    case MemoryCategory::images:
      return images;
    case MemoryCategory::activations:
    case MemoryCategory::other:
      return other;
  }
  fail(ExitCode::bug, "internal error: no such memory category");
}

MemoryUse memory_use(const LoweredProgram& program, const MemoryPlan& plan) {
  MemoryUse use{.activations = plan.arena_bytes, .exchange = plan.exchange_bytes};
  const auto most_alive = [&](MemoryCategory category) {
    int64_t most = 0;
    for (int64_t time = 0; time < static_cast<int64_t>(plan.workspace.size()); ++time) {
      int64_t alive = 0;
      for (size_t i = 0; i < plan.values.size(); ++i) {
        const auto& lives = plan.values[i].lives;
        if (program.values[i].category != category || !in_arena(program.values[i])) continue;
        if (std::any_of(lives.begin(), lives.end(), [&](const Range& l) { return l.begin <= time && time < l.end; }))
          alive += plan.values[i].bytes;
      }
      most = std::max(most, alive);
    }
    return most;
  };
  use.gathered_weights = most_alive(MemoryCategory::weights);
  use.gradient_buckets = most_alive(MemoryCategory::gradients);
  for (const Value& value : program.values) {
    if (value.base != kNone || in_arena(value)) continue;
    (value.space == MemorySpace::host ? use.host : use.of(value.category)) += stored_bytes(value);
  }
  return use;
}

/// Slices of one value as the first of them, and how many there are.
static std::vector<std::pair<ValueId, int>> without_repeats(const LoweredProgram& program, const Ids& ids) {
  std::vector<std::pair<ValueId, int>> firsts;
  for (ValueId id : ids) {
    const auto same = std::find_if(firsts.begin(), firsts.end(), [&](const auto& first) {
      return program[first.first].name == program[id].name && program[first.first].dtype == program[id].dtype;
    });
    if (same == firsts.end())
      firsts.push_back({id, 1});
    else
      ++same->second;
  }
  return firsts;
}

std::string to_text(const LoweredProgram& program, const MemoryPlan& plan) {
  std::ostringstream out;
  const auto name = [&](ValueId id) {
    const Value& v = program[id];
    return v.name + ":" + std::string(name_of(v.dtype)) + to_string(v.shape);
  };
  const auto list = [&](const char* title, const Program& steps, size_t first = 0) {
    out << title << "\n";
    for (size_t i = first; i < steps.size(); ++i) {
      out << "  " << std::setw(3) << i << "  " << std::left << std::setw(24) << name_of(steps[i].op) << std::right;
      for (const auto& [separator, ids] : {std::pair("", writes(steps[i].op)), {"  <-  ", reads(steps[i].op)}}) {
        const char* before = separator;
        for (const auto& [id, slices] : without_repeats(program, ids)) {
          out << std::exchange(before, ", ") << name(id);
          if (slices > 1) out << " and " << slices - 1 << " more slices";
        }
      }
      if (steps[i].is_recompute) out << "  (recompute)";
      if (steps[i].after >= 0) out << "  (after communication " << steps[i].after << ")";
      if (steps[i].after_update >= 0) out << "  (after the update's communication " << steps[i].after_update << ")";
      out << "\n";
    }
  };
  size_t shared = 0;  // steps that both programs begin with
  while (shared < std::min(program.micro.size(), program.last.size()) &&
         std::holds_alternative<ComputeOp>(program.micro[shared].op) &&
         name_of(program.micro[shared].op) == name_of(program.last[shared].op) &&
         !std::holds_alternative<TreePush>(std::get<ComputeOp>(program.micro[shared].op)))
    ++shared;
  if (!program.refresh.empty()) list("refresh (once, after weights were loaded)", program.refresh);
  list("micro (every micro-step but the last)", program.micro);
  list("last (the last micro-step): the same up to here, then", program.last, shared);
  list("update", program.update);

  out << "arena: " << plan.arena_bytes << " bytes\n";
  if (plan.exchange_bytes > 0) out << "arena that peers read: " << plan.exchange_bytes << " bytes\n";
  out << "  offset      bytes       lives           value\n";
  const auto row = [&](const MemoryPlan::Place& p, const std::string& what) {
    if (p.offset < 0 || p.bytes == 0) return;
    std::string lives;
    for (const Range& life : p.lives)
      lives += (lives.empty() ? "" : ",") + std::to_string(life.begin) + "-" + std::to_string(life.end - 1);
    out << "  " << std::left << std::setw(12) << p.offset << std::setw(12) << p.bytes << std::setw(16) << lives << what
        << std::right << "\n";
  };
  for (size_t i = 0; i < plan.values.size(); ++i) row(plan.values[i], program.values[i].name);
  for (size_t i = 0; i < plan.workspace.size(); ++i)
    row(plan.workspace[i], "(workspace of operation " + std::to_string(i) + ")");
  out << "resident:\n";
  for (const Value& v : program.values)
    if (v.base == kNone && !in_arena(v)) out << "  " << v.name << "  " << stored_bytes(v) << " bytes\n";
  return out.str();
}

}  // namespace ct
