#include "cli/bench/large_ops.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace ct {
namespace {

bool passes_over_memory(const ComputeOp& op) {
  return std::visit(
      [](const auto& o) {
        return o.kFacts.limit == Limit::memory && (o.kFacts.role == Role::layer || o.kFacts.role == Role::gradient);
      },
      op);
}

Ids operands_of(const ComputeOp& op) {
  Ids ids = reads(Op(op));
  for (const ValueId id : writes(Op(op))) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// Activations are a batch of something; parameters and their gradients are as they are.
std::vector<Value> with_large_batch(std::vector<Value> values, const Ids& operands) {
  const auto value = [&](ValueId id) -> Value& { return values[static_cast<size_t>(id)]; };
  int64_t largest = 1;
  for (const ValueId id : operands)
    if (value(id).category == MemoryCategory::activations) largest = std::max(largest, stored_bytes(value(id)));
  const int64_t batches = (kLargeBytes + largest - 1) / largest;
  for (const ValueId id : operands)
    if (value(id).category == MemoryCategory::activations) value(id).shape[0] *= batches;
  return values;
}

/// What passes over memory, of each name the operation that moves most, in the program's order.
std::vector<Step> largest_of_each_name(const std::vector<Step>& steps, const std::vector<Value>& values) {
  std::vector<Step> largest;
  for (const Step& step : steps) {
    const auto* op = std::get_if<ComputeOp>(&step.op);
    if (op == nullptr || !passes_over_memory(*op)) continue;
    const auto same_name = [&](const Step& other) { return name_of(other.op) == name_of(step.op); };
    const auto known = std::ranges::find_if(largest, same_name);
    if (known == largest.end())
      largest.push_back(step);
    else if (cost_of(step.op, values).bytes > cost_of(known->op, values).bytes)
      *known = step;
  }
  return largest;
}

/// Memory full of numbers of ordinary size, in any type.
Memory ordinary_numbers(Backend& backend, int64_t bytes) {
  Memory memory = backend.allocate(static_cast<size_t>(bytes));
  if (backend.is_host()) std::memset(memory.data(), 0x3c, memory.bytes());
  return memory;
}

}  // namespace

OpTimes time_large_operations(const LoweredProgram& program, Backend& backend, const OpTimingOptions& options) {
  OpTimes times{.ops = {}, .step = 0};
  for (const Step& step : largest_of_each_name(program.last.empty() ? program.micro : program.last, program.values)) {
    const auto* op = std::get_if<ComputeOp>(&step.op);
    const Ids operands = operands_of(*op);
    const std::vector<Value> values = with_large_batch(program.values, operands);
    std::map<ValueId, Memory> memory;
    for (const ValueId id : operands)
      memory[id] = ordinary_numbers(backend, stored_bytes(values[static_cast<size_t>(id)]));
    const auto tensor = [&](ValueId id) {
      const Value& value = values[static_cast<size_t>(id)];
      return Tensor{memory.at(id).data(), value.dtype, value.shape};
    };
    times.ops.push_back({std::string(name_of(step.op)), time_operation(backend, *op, values, tensor, options),
                         cost_of(step.op, values), result_of(step.op, values)});
  }
  return times;
}

}  // namespace ct
