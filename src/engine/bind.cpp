#include "engine/bind.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace ct {
namespace {

using Kernels = std::vector<std::unique_ptr<Kernel>>;

Kernels prepare(Backend& backend, const Program& steps, const std::vector<Value>& values) {
  Kernels kernels(steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto* op = std::get_if<ComputeOp>(&steps[i].op)) kernels[i] = backend.prepare(*op, values);
  return kernels;
}

MemoryPlan plan_with(const Lowered& program, const Kernels& micro, const Kernels& last) {
  const auto bytes = [](const Kernels& kernels) {
    std::vector<size_t> sizes;
    for (const auto& kernel : kernels) sizes.push_back(kernel ? kernel->workspace_bytes() : 0);
    return sizes;
  };
  return plan_memory(program, bytes(micro), bytes(last));
}

}  // namespace

MemoryPlan plan_program(Backend& backend, const Lowered& program) {
  return plan_with(program, prepare(backend, program.micro, program.values),
                   prepare(backend, program.last, program.values));
}

BoundProgram::BoundProgram(Backend& backend, Communicator& comm, Lowered program, std::byte* params)
    : backend_(backend), comm_(comm), program_(std::move(program)) {
  kernels_micro_ = prepare(backend_, program_.micro, program_.values);
  kernels_last_ = prepare(backend_, program_.last, program_.values);
  kernels_update_ = prepare(backend_, program_.update, program_.values);
  plan_ = plan_with(program_, kernels_micro_, kernels_last_);
  arena_ = backend_.allocate(static_cast<size_t>(plan_.arena_bytes));
  address_.resize(program_.values.size(), nullptr);
  for (size_t i = 0; i < address_.size(); ++i)
    if (plan_.values[i].offset >= 0) address_[i] = arena_.data() + plan_.values[i].offset;
  allocate_residents(params);

  micro_ = bind(program_.micro, kernels_micro_, /*uses_arena=*/true);
  last_ = bind(program_.last, kernels_last_, /*uses_arena=*/true);
  update_ = bind(program_.update, kernels_update_, /*uses_arena=*/false);
}

void BoundProgram::allocate_residents(std::byte* params) {
  for (size_t i = 0; i < program_.values.size(); ++i) {
    const Value& value = program_.values[i];
    if (value.home != Home::resident || value.base != kNone) continue;
    const ValueId id = static_cast<ValueId>(i);
    const size_t bytes = static_cast<size_t>(stored_bytes(value));
    if (id == program_.params && params != nullptr) {
      address_[i] = params;
    } else if (id == program_.grads) {
      address_[i] = comm_.allocate(bytes);  // peers read it
    } else {
      memories_.push_back(backend_.allocate(bytes));
      address_[i] = memories_.back().data();
    }
  }
}

Tensor BoundProgram::tensor(ValueId id) const {
  const Value& value = program_[id];
  const Origin at = origin(program_.values, id);
  std::byte* base = address_[static_cast<size_t>(at.value)];
  check(base != nullptr, "value ", value.name, " has no memory");
  return {base + at.byte_offset, value.dtype, value.shape};
}

std::vector<BoundProgram::Launch> BoundProgram::bind(const Program& steps, const Kernels& kernels, bool uses_arena) {
  std::vector<Launch> launches;
  for (size_t i = 0; i < steps.size(); ++i) {
    Kernel* kernel = kernels[i].get();
    if (kernel == nullptr) {
      launches.push_back(bind_comm(std::get<CommOp>(steps[i].op)));
      continue;
    }
    std::byte* workspace = nullptr;
    if (const size_t bytes = kernel->workspace_bytes(); bytes > 0) {
      if (uses_arena) {
        workspace = arena_.data() + plan_.workspace[i].offset;
      } else {
        memories_.push_back(backend_.allocate(bytes));
        workspace = memories_.back().data();
      }
    }
    kernel->bind([this](ValueId id) { return tensor(id); }, workspace);
    launches.push_back([kernel] { kernel->launch(); });
  }
  return launches;
}

BoundProgram::Launch BoundProgram::bind_comm(const CommOp& op) {
  const auto data_of = [this](ValueId id) {
    const Tensor t = tensor(id);
    return std::span<float>(t.as<float>(), static_cast<size_t>(t.shape.stored()));
  };
  const auto launch = [this](std::unique_ptr<Collective> collective) -> Launch {
    Collective* raw = collective.get();
    collectives_.push_back(std::move(collective));
    return [raw] { raw->launch(); };
  };
  if (const auto* all_reduce = std::get_if<AllReduce>(&op)) {
    const Range& r = all_reduce->range;
    return launch(comm_.all_reduce(
        data_of(all_reduce->data).subspan(static_cast<size_t>(r.begin), static_cast<size_t>(r.size()))));
  }
  const std::vector<int64_t> bounds = shard_bounds(program_.flat, comm_.size());
  if (const auto* gather = std::get_if<AllGather>(&op)) return launch(comm_.all_gather(data_of(gather->data), bounds));

  const auto& scatter = std::get<ReduceScatter>(op);
  const int64_t begin = bounds[static_cast<size_t>(comm_.rank())], end = bounds[static_cast<size_t>(comm_.rank()) + 1];
  if (!shard_sum_) shard_sum_ = std::make_unique<TreeSum>(end - begin, program_.distribution.micro_batches());
  const std::span<float> data = data_of(scatter.data);
  return launch(comm_.reduce_scatter(data, bounds, *shard_sum_, scatter.last ? data.data() + begin : nullptr));
}

std::vector<BoundProgram::Timing> BoundProgram::time_steps() {
  std::vector<Timing> timings;
  const auto time = [&](const Program& steps, const std::vector<Launch>& launches) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      launches[i]();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      timings.push_back({std::string(name_of(steps[i].op)), took.count()});
    }
  };
  if (last_.empty())
    time(program_.micro, micro_);
  else
    time(program_.last, last_);
  time(program_.update, update_);
  return timings;
}

size_t BoundProgram::resident_bytes() const {
  size_t bytes = 0;
  for (const Value& v : program_.values)
    if (v.home == Home::resident && v.base == kNone) bytes += static_cast<size_t>(stored_bytes(v));
  return bytes;
}

}  // namespace ct
