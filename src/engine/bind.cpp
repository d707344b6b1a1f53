#include "engine/bind.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/seconds.h"
#include "plan/traffic.h"

namespace ct {
namespace {

using Kernels = std::vector<std::unique_ptr<Kernel>>;

/// The operations from steps[first] on that are computed directly after each other: nothing is communicated, and only
/// the first may have to wait.
std::vector<const ComputeOp*> uninterrupted(const Program& steps, size_t first) {
  std::vector<const ComputeOp*> ops;
  for (size_t i = first; i < steps.size(); ++i) {
    const auto* op = std::get_if<ComputeOp>(&steps[i].op);
    if (op == nullptr || (i > first && (steps[i].after >= 0 || steps[i].after_update >= 0))) break;
    ops.push_back(op);
  }
  return ops;
}

/// By step. Of operations that one kernel computes, the first has it. At one time, all their operands live together.
Kernels prepare(Backend& backend, Program& steps, const std::vector<Value>& values) {
  Kernels kernels(steps.size());
  const std::vector<int> readers = count_readers(steps, values);
  for (size_t i = 0; i < steps.size();) {
    const std::vector<const ComputeOp*> ops = uninterrupted(steps, i);
    if (ops.empty()) {
      ++i;
      continue;
    }
    MergedKernel merged = backend.merge(ops, values, readers);
    kernels[i] = merged.kernel ? std::move(merged.kernel) : backend.prepare(*ops.front(), values);
    for (size_t k = 1; k < merged.operations; ++k) {
      steps[i + k].time = steps[i].time;
      steps[i + k].merged = true;
    }
    i += merged.operations;
  }
  return kernels;
}

MemoryPlan plan_with(const LoweredProgram& program, const Kernels& micro, const Kernels& last) {
  const auto bytes = [](const Kernels& kernels) {
    std::vector<size_t> sizes;
    for (const auto& kernel : kernels) sizes.push_back(kernel ? kernel->workspace_bytes() : 0);
    return sizes;
  };
  return plan_memory(program, bytes(micro), bytes(last));
}

size_t communications(const Program& steps) {
  return static_cast<size_t>(
      std::count_if(steps.begin(), steps.end(), [](const Step& s) { return std::holds_alternative<CommOp>(s.op); }));
}

/// The most communications under way at a time: those of an update may be when the next program runs.
size_t most_communications(const LoweredProgram& program) {
  return 1 + communications(program.update) +
         std::max({communications(program.refresh), communications(program.micro), communications(program.last)});
}

using Phases = std::vector<std::optional<StepPhase>>;

/// By step. Computation is of `first`; what follows the loss is the backward pass.
Phases phases_of(const Program& steps, StepPhase first, StepPhase exchange) {
  Phases phases;
  StepPhase computation = first;
  for (const Step& step : steps) {
    const auto* op = std::get_if<ComputeOp>(&step.op);
    phases.push_back(op != nullptr ? computation : exchange);
    if (op != nullptr && std::holds_alternative<SoftmaxCrossEntropy>(*op)) computation = StepPhase::backward;
  }
  return phases;
}

}  // namespace

MemoryPlan plan_program(Backend& backend, const LoweredProgram& program) {
  LoweredProgram merged = program;
  const Kernels micro = prepare(backend, merged.micro, merged.values),
                last = prepare(backend, merged.last, merged.values);
  return plan_with(merged, micro, last);
}

BoundProgram::BoundProgram(Backend& backend, Communicator& comm, LoweredProgram program, const BindOptions& options)
    : backend_(backend),
      comm_(comm),
      program_(std::move(program)),
      warn_(options.warn),
      exchanged_(options.exchanged),
      record_(options.record && !backend.is_host()),
      phase_clock_(options.time_phases ? std::optional<PhaseClock>(backend) : std::nullopt),
      collective_(comm.size() > 1 && most_communications(program_) > 1),
      queue_(backend.is_host() && options.queue.overlap_comm.value_or(comm.overlaps()) && comm.size() > 1,
             most_communications(program_), [&backend] { backend.enter_thread(); }) {
  const auto prepared = [&](Program& steps) { return prepare(backend_, steps, program_.values); };
  kernels_refresh_ = prepared(program_.refresh);
  kernels_micro_ = prepared(program_.micro);
  kernels_last_ = prepared(program_.last);
  kernels_update_ = prepared(program_.update);
  plan_ = plan_with(program_, kernels_micro_, kernels_last_);
  const auto arena_bytes = static_cast<size_t>(plan_.arena_bytes);
  arena_ = options.arena;
  if (arena_.size() < arena_bytes) {
    const auto bytes = std::max(arena_bytes, static_cast<size_t>(options.least_arena));
    memories_.push_back(backend_.allocate(bytes));
    arena_ = {memories_.back().data(), bytes};
    allocated_.activations = static_cast<int64_t>(bytes);
  }
  if (plan_.exchange_bytes > 0) exchange_ = allocate_shared(static_cast<size_t>(plan_.exchange_bytes));
  const MemoryUse planned = memory_use(program_, plan_);
  allocated_.exchange = planned.exchange;
  allocated_.gathered_weights = planned.gathered_weights;
  allocated_.gradient_buckets = planned.gradient_buckets;
  address_.resize(program_.values.size(), nullptr);
  for (size_t i = 0; i < address_.size(); ++i)
    if (plan_.values[i].offset >= 0)
      address_[i] =
          (program_.values[i].space == MemorySpace::exchange ? exchange_ : arena_.data()) + plan_.values[i].offset;
  allocate_residents(options.params);
  allocate_scratch();

  const auto phases = [&](const Program& steps, StepPhase first, StepPhase exchange) {
    return phase_clock_ ? phases_of(steps, first, exchange) : Phases{};
  };
  refresh_ = bind(program_.refresh, kernels_refresh_, /*uses_arena=*/false, {});
  micro_ = bind(program_.micro, kernels_micro_, /*uses_arena=*/true,
                phases(program_.micro, StepPhase::forward, StepPhase::exchange));
  last_ = bind(program_.last, kernels_last_, /*uses_arena=*/true,
               phases(program_.last, StepPhase::forward, StepPhase::exchange));
  update_ = bind(program_.update, kernels_update_, /*uses_arena=*/false,
                 phases(program_.update, StepPhase::update, StepPhase::update_exchange));
  if (comm_.recordable() && comm_.size() > 1) load_kernels();
}

/// Computes on zeros, and leaves zeros.
void BoundProgram::load_kernels() {
  for (const PhaseProgram* program : {&refresh_, &micro_, &last_, &update_})
    for (const GraphSegment& segment : program->segments)
      for (const Bound& step : segment.steps)
        if (!step.communication) step.launch();
  backend_.clear(arena_.data(), arena_.size());
  for (const Memory& memory : memories_) backend_.clear(memory.data(), memory.bytes());
  for (const auto& [at, bytes] : of_comm_) backend_.clear(at, bytes);
  backend_.wait();
  for (const Memory& memory : host_memories_) std::memset(memory.data(), 0, memory.bytes());
  comm_.barrier();
}

/// The workspace of operations outside the arena, which they use one after the other.
void BoundProgram::allocate_scratch() {
  size_t most = 0;
  for (const Kernels* kernels : {&kernels_refresh_, &kernels_update_})
    for (const auto& kernel : *kernels) most = std::max(most, kernel ? kernel->workspace_bytes() : 0);
  if (most == 0) return;
  memories_.push_back(backend_.allocate(most));
  scratch_ = memories_.back().data();
  allocated_.other += static_cast<int64_t>(most);
}

void BoundProgram::allocate_residents(std::byte* params) {
  for (size_t i = 0; i < program_.values.size(); ++i) {
    const Value& value = program_.values[i];
    const bool shared = value.space == MemorySpace::shared;
    const bool host = value.space == MemorySpace::host;
    if ((value.space != MemorySpace::resident && !shared && !host) || value.base != kNone) continue;
    if (static_cast<ValueId>(i) == program_.params && params != nullptr) {
      address_[i] = params;
      continue;
    }
    const int64_t bytes = stored_bytes(value);
    if (shared) {
      address_[i] = allocate_shared(static_cast<size_t>(bytes));
    } else {
      std::vector<Memory>& memories = host ? host_memories_ : memories_;
      memories.push_back(host ? backend_.allocate_host(static_cast<size_t>(bytes))
                              : backend_.allocate(static_cast<size_t>(bytes)));
      address_[i] = memories.back().data();
    }
    (host ? allocated_.host : allocated_.of(value.category)) += bytes;
  }
}

std::byte* BoundProgram::allocate_shared(size_t bytes) {
  return of_comm_.emplace_back(comm_.allocate(bytes), bytes).first;
}

MemoryUse BoundProgram::allocated() const {
  MemoryUse use = allocated_;
  for (const auto& [key, reduction] : reductions_) use.gradients += static_cast<int64_t>(reduction->bytes());
  return use;
}

Tensor BoundProgram::tensor(ValueId id) const {
  const Value& value = program_[id];
  const Origin at = origin(program_.values, id);
  std::byte* base = address_[static_cast<size_t>(at.value)];
  check(base != nullptr, "value ", value.name, " has no memory");
  return {base + at.byte_offset, value.dtype, value.shape};
}

std::span<std::byte> BoundProgram::bytes_of(ValueId id) const {
  return {tensor(id).data, static_cast<size_t>(stored_bytes(program_[id]))};
}

/// What a device repeats by itself lies between collectives that need the host.
/// `phases`: of each step; empty: nothing is timed.
BoundProgram::PhaseProgram BoundProgram::bind(const Program& steps, const Kernels& kernels, bool uses_arena,
                                              const std::vector<std::optional<StepPhase>>& phases) {
  PhaseProgram program;
  std::vector<GraphSegment>& segments = program.segments;
  std::optional<StepPhase> phase;
  const auto add = [&](Bound bound) {
    const bool repeats = record_ && (bound.communication ? comm_.recordable() && !exchanged_ : bound.recordable);
    if (segments.empty() || (record_ && segments.back().repeats != repeats) || segments.back().phase != phase)
      segments.push_back({.repeats = repeats, .phase = phase});
    segments.back().steps.push_back(std::move(bound));
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].merged) {
      ++segments.back().steps.back().merged;
      continue;
    }
    Kernel* kernel = kernels[i].get();
    if (!phases.empty()) phase = phases[i];
    if (kernel == nullptr) {
      const auto& op = std::get<CommOp>(steps[i].op);
      add({.launch = timed(bind_comm(op), op), .communication = true, .step = &steps[i]});
      continue;
    }
    std::byte* workspace = nullptr;
    if (kernel->workspace_bytes() > 0)
      workspace = uses_arena ? arena_.data() + plan_.workspace[static_cast<size_t>(steps[i].time)].offset : scratch_;
    kernel->bind([this](ValueId id) { return tensor(id); }, workspace);
    add({.launch = [kernel] { kernel->launch(); },
         .recordable = kernel->recordable(),
         .after = steps[i].after,
         .after_update = steps[i].after_update,
         .step = &steps[i]});
  }
  return program;
}

void BoundProgram::add(const Transfers& transfers) {
  const auto append = [](PhaseProgram& program, const Launch& launch) {
    if (launch && !program.segments.empty()) program.segments.back().steps.push_back({.launch = launch});
  };
  for (PhaseProgram* program : {&micro_, &last_}) {
    if (!transfers.before_micro || program->segments.empty()) continue;
    auto& first = program->segments.front().steps;
    first.insert(first.begin(), Bound{.launch = transfers.before_micro});
  }
  if (!transfers.after_micro.empty()) append(micro_, backend_.ring_copies(transfers.after_micro));
  const auto takes = [&](const auto& kernel) { return kernel && kernel->take(transfers.after_update); };
  if (!transfers.after_update.empty() && std::ranges::none_of(kernels_update_, takes)) {
    check(!update_.segments.empty(), "an update without operations has no place for copies");
    append(update_, backend_.ring_copies(transfers.after_update));
  }
}

/// Which ranges of `place` each rank owns, and where they lie in its shard.
Ownership BoundProgram::ownership(const std::vector<Run>& place, bool in_place, AllGather::What what,
                                  const std::vector<int>& owners) const {
  if (!owners.empty()) {
    check(in_place, "runs of owners of their own that are not in place");
    Ownership ranges(static_cast<size_t>(comm_.size()));
    for (size_t i = 0; i < place.size(); ++i)
      ranges[static_cast<size_t>(owners[i])].push_back({.whole = place[i].byte,
                                                        .shard = place[i].byte,
                                                        .elements = place[i].range.size(),
                                                        .element_bytes = static_cast<int>(size_of(place[i].dtype))});
    return ranges;
  }
  const FlatLayout& flat = program_.flat;
  const Shards& shards = program_.shards;
  const std::vector<Run> all_f32{{{0, flat.numel}, DType::f32, 0}};
  std::vector<Run> placed = place;
  if (what == AllGather::What::grads) {  // nobody writes the padding between parameters in a bucket
    placed.clear();
    for (const Range& parameter : flat.parameters)
      for (const Run& part : intersection(place, parameter)) placed.push_back(part);
  }
  Ownership ranges(static_cast<size_t>(comm_.size()));
  for (int r = 0; r < comm_.size(); ++r) {
    auto& of_rank = ranges[static_cast<size_t>(r)];
    std::vector<Range> owned = shards.owned(r);
    if (what == AllGather::What::chunk_sums) {  // in place of elements, the numbers of the chunks that lie in them
      std::vector<Range> numbers;
      size_t chunk = 0;
      for (const Range& range : owned) {
        while (chunk < flat.chunks.size() && flat.chunks[chunk].begin < range.begin) ++chunk;
        const size_t first = chunk;
        while (chunk < flat.chunks.size() && flat.chunks[chunk].begin < range.end) ++chunk;
        if (chunk > first) numbers.push_back({static_cast<int64_t>(first), static_cast<int64_t>(chunk)});
      }
      owned = std::move(numbers);
    }
    const std::vector<Run> packed = shards.packed(r, what == AllGather::What::params ? flat.runs : all_f32);
    for (const Range& range : owned)
      for (const Run& part : intersection(placed, range))
        of_rank.push_back({.whole = part.byte,
                           .shard = in_place ? part.byte : byte_of(packed, part.range.begin),
                           .elements = part.range.size(),
                           .element_bytes = static_cast<int>(size_of(part.dtype))});
  }
  return ranges;
}

/// Do gradients travel in 16 bits?
bool BoundProgram::narrows() const {
  const Distribution& d = program_.distribution;
  return d.wire != DType::f32 && !d.reproducible && comm_.narrows();
}

/// Of a buffer whose element `first` is the range's first: gradients, but neither running statistics, which would lose
/// more than gradients do, nor pads.
Narrowing BoundProgram::narrowing(const Range& range, int64_t first) const {
  Narrowing narrowing{.type = program_.distribution.wire};
  for (const Range& chunk : program_.flat.chunks) {
    const int64_t begin = std::max(chunk.begin, range.begin), end = std::min(chunk.end, range.end);
    if (begin >= end) continue;
    const int64_t moved = first - range.begin;
    auto& all = narrowing.elements;
    if (!all.empty() && all.back().second == begin + moved)
      all.back().second = end + moved;
    else
      all.emplace_back(begin + moved, end + moved);
  }
  return narrowing;
}

BoundProgram::Launch BoundProgram::bind_comm(const CommOp& op) {
  const SumOrder order = program_.distribution.reproducible ? SumOrder::canonical : SumOrder::any;
  const auto floats = [this](ValueId id) {
    const std::span<std::byte> bytes = bytes_of(id);
    return std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  };
  const auto launch = [this](std::unique_ptr<Collective> collective) -> Launch {
    collectives_.push_back(std::move(collective));
    return [raw = collectives_.back().get()] { raw->launch(); };
  };
  if (const auto* all_reduce = std::get_if<AllReduce>(&op)) {
    const std::span<float> data = floats(all_reduce->data);
    if (!narrows()) return launch(comm_.all_reduce(data, order));
    const int64_t begin = data.data() - floats(program_.grads).data();
    return launch(comm_.narrow_all_reduce(data, narrowing({begin, begin + static_cast<int64_t>(data.size())}, 0)));
  }
  if (const auto* gather = std::get_if<AllGather>(&op)) {
    const bool norms = gather->what == AllGather::What::chunk_sums;
    return launch(
        comm_.all_gather(bytes_of(gather->whole), bytes_of(gather->shard),
                         ownership(gather->place, gather->whole == gather->shard, gather->what, gather->owners),
                         norms ? TrafficKind::norms : TrafficKind::training));
  }
  const auto& scatter = std::get<ReduceScatter>(op);
  const std::span<float> whole = floats(scatter.whole);
  const Run& place = scatter.place.front();
  auto& reduction = reductions_[{tensor(scatter.whole).data, place.range.begin}];
  if (!reduction) {
    float* const shard = floats(scatter.shard).data();
    Ownership ranges = ownership(scatter.place, scatter.whole == scatter.shard, AllGather::What::grads);
    const int64_t leaves = program_.distribution.micro_batches();
    reduction = narrows() ? comm_.narrow_reduce_scatter(whole, shard, std::move(ranges), leaves,
                                                        narrowing(place.range, place.byte / 4))
                          : comm_.reduce_scatter(whole, shard, std::move(ranges), leaves, order);
  }
  if (scatter.last) return [raw = reduction.get()] { raw->finish(); };
  return [raw = reduction.get()] { raw->push(); };
}

namespace {
std::string what_of(const CommOp& op) {
  const auto* gather = std::get_if<AllGather>(&op);
  if (gather == nullptr || gather->what == AllGather::What::grads) return "gradients";
  return gather->what == AllGather::What::params ? "parameters" : "norms";
}
}  // namespace

/// Tells `exchanged` of each launch, if it is there.
BoundProgram::Launch BoundProgram::timed(Launch launch, const CommOp& op) const {
  if (!exchanged_) return launch;
  const Exchange described{
      .name = std::string(name_of(Op{op})), .what = what_of(op), .bytes = message_bytes(program_, op)};
  return [this, launch = std::move(launch), described] {
    if (!backend_.is_host()) backend_.wait();  // what it exchanges is computed first
    Exchange exchange = described;
    exchange.seconds = seconds_of([&] {
      launch();
      if (!backend_.is_host()) backend_.wait();
    });
    exchanged_(exchange);
  };
}

}  // namespace ct
