#include "train/memory/gpu_extras.h"

#include <algorithm>
#include <set>
#include <utility>

#include "comm/nccl/nccl.h"
#include "comm/reduction/ownership.h"
#include "device/cuda.h"
#include "device/scratch.h"
#include "engine/feed.h"

namespace ct {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

const CommOp* communication(const Step& step) { return std::get_if<CommOp>(&step.op); }

/// The steps of all programs, in the order in which the engine binds them.
std::vector<const Step*> steps_of(const LoweredProgram& program) {
  std::vector<const Step*> all;
  for (const Program* steps : {&program.refresh, &program.micro, &program.last, &program.update})
    for (const Step& step : *steps) all.push_back(&step);
  return all;
}

/// What this rank owns of what lies in `place`, without the padding between parameters, as runs of the flat order.
std::vector<Range> owned_in(const LoweredProgram& program, const std::vector<Run>& place) {
  std::vector<Range> owned;
  for (const Range& parameter : program.flat.parameters)
    for (const Run& part : intersection(place, parameter))
      for (const Range& own : program.shards.owned(program.distribution.rank, part.range)) owned.push_back(own);
  return owned;
}

int64_t elements_of(const std::vector<Range>& ranges) {
  int64_t sum = 0;
  for (const Range& range : ranges) sum += range.size();
  return sum;
}

/// Reductions that `micro` and `last` have in common are one.
class Reductions {
 public:
  explicit Reductions(const LoweredProgram& program) : program_(program) {}
  bool is_new(const ReduceScatter& op) {
    return known_.insert({origin(program_.values, op.whole).value, op.place.front().range.begin}).second;
  }

 private:
  const LoweredProgram& program_;
  std::set<std::pair<ValueId, int64_t>> known_;
};

/// Every sum has a slot for each rank, at most (NCCL may add by itself, without reproducible).
void add_nccl(GpuExtras& extras, const LoweredProgram& program) {
  const Distribution& d = program.distribution;
  const SumOrder order = d.reproducible ? SumOrder::canonical : SumOrder::any;
  ScratchBytes received;
  const auto slots_for = [&](int64_t elements) { received.of(nccl_slot_bytes(d.ranks, elements)); };
  Reductions reductions(program);
  for (const Step* step : steps_of(program)) {
    const CommOp* comm = communication(*step);
    if (comm == nullptr) continue;
    if (const auto* sum = std::get_if<AllReduce>(comm); sum != nullptr && (d.reproducible || d.ranks == 1)) {
      const Ownership slices = even_slices(d.ranks, program[sum->data].shape.numel());
      slots_for(ct::elements_of(slices[static_cast<size_t>(d.rank)]));
    }
    if (const auto* sum = std::get_if<ReduceScatter>(comm); sum != nullptr && reductions.is_new(*sum)) {
      const int64_t owned = elements_of(owned_in(program, sum->place));
      slots_for(owned);
      if (const int64_t levels = nccl_sum_levels(d.ranks, d.micro_batches(), order); levels > 0) {
        extras.partial_sums += nccl_slot_bytes(levels, owned);
        extras.received += static_cast<int64_t>(kNcclCounterBytes);
      }
    }
  }
  extras.received += received.sum;
}

/// What the other side of collectives passes through.
void add_staging(ScratchBytes& staging, const LoweredProgram& program) {
  const Distribution& d = program.distribution;
  const std::vector<Run> packed = program.shards.packed(d.rank, {{{0, program.flat.numel}, DType::f32, 0}});
  Reductions reductions(program);
  for (const Step* step : steps_of(program)) {
    const CommOp* comm = communication(*step);
    if (comm == nullptr) continue;
    if (const auto* gather = std::get_if<AllGather>(comm); gather != nullptr && gather->whole != gather->shard)
      staging.of(bytes_of(gather->place));
    if (const auto* sum = std::get_if<ReduceScatter>(comm);
        sum != nullptr && sum->whole != sum->shard && reductions.is_new(*sum)) {
      int64_t end = 0;
      for (const Range& own : owned_in(program, sum->place))
        end = std::max(end, byte_of(packed, own.begin) + own.size() * kFloatBytes);
      staging.of(end);
    }
  }
}

/// A buffer that peers read has a twin in the host's memory.
void add_twins(GpuExtras& extras, const LoweredProgram& program, ValueId theirs = kNone) {
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Value& value = program.values[i];
    if (value.space == MemorySpace::shared && value.base == kNone && static_cast<ValueId>(i) != theirs)
      extras.staged += stored_bytes(value);
  }
}

/// What the device reads of chunks and tensors beside values.
int64_t table_bytes(const ComputeOp& op) {
  size_t bytes = 0;
  if (const auto* sums = std::get_if<SquareSums>(&op)) bytes += kCudaTableRowBytes * sums->chunks.size();
  if (const auto* moments = std::get_if<LambMoments>(&op))
    for (const LambMoments::Slice& slice : moments->slices) bytes += kCudaMomentsRowBytes * slice.chunks.size();
  if (const auto* ratios = std::get_if<TrustRatios>(&op)) bytes += kCudaTensorRowBytes * ratios->tensors.size();
  return static_cast<int64_t>(bytes);
}

/// The ratios of trust, which each slice that the host updates has for itself.
int64_t ratio_bytes(const ComputeOp& op, const LoweredProgram& program) {
  return std::visit(
      [&](const auto& o) -> int64_t {
        if constexpr (requires { o.slices, o.ratios; })
          return o.ratios == kNone ? 0 : std::ssize(o.slices) * stored_bytes(program[o.ratios]);
        else
          return 0;
      },
      op);
}

/// Tables, and what travels of slices that the host updates: two at a time (device/cuda/offload.cpp).
void add_updates(GpuExtras& extras, const LoweredProgram& program) {
  const auto on_host = [&](ValueId id) { return program[origin(program.values, id).value].space == MemorySpace::host; };
  int64_t slices = 0, largest = 0;
  for (const Program* steps : {&program.refresh, &program.update})
    for (const Step& step : *steps) {
      const auto* op = std::get_if<ComputeOp>(&step.op);
      if (op == nullptr) continue;
      const Ids from = reads(step.op), to = writes(step.op);
      if (std::none_of(from.begin(), from.end(), on_host)) {
        extras.updates += table_bytes(*op);
        continue;
      }
      if (!updates_a_copy(*op)) {  // staged whole
        std::set<ValueId> staged(from.begin(), from.end());
        staged.insert(to.begin(), to.end());
        for (ValueId id : staged)
          if (!on_host(id)) extras.mirrors += stored_bytes(program[id]);
      }
      extras.mirrors += ratio_bytes(*op, program);
      for (ValueId id : to)
        if (origin(program.values, id).value == program.params) {
          ++slices;
          largest = std::max(largest, program[id].shape.numel());
        }
    }
  extras.mirrors += std::min<int64_t>(slices, kOffloadSlots) * OffloadSlotBytes(largest).sum();
}

}  // namespace

GpuExtras gpu_extras(const GpuExtrasOf& what) {
  const LoweredProgram &train = what.train, &evaluate = what.evaluate;
  GpuExtras extras;
  add_updates(extras, train);
  const auto mirror = [&](ValueId id) {
    if (id != kNone && train[id].space != MemorySpace::host) extras.mirrors += stored_bytes(train[id]);
  };
  for (const HeldState& state : train.states) mirror(state.value);
  for (ValueId id : {train.schedule, train.scalars, train.loss_scale}) mirror(id);
  const bool replicas = what.compares_replicas && train.distribution.effective_stage() < 3;
  if (replicas && train.params != train.states.front().value) mirror(train.params);
  for (ValueId id : {train.ports.losses, train.scalars, train.loss_scale})
    if (id != kNone) extras.mirrors += OutputLog::host_bytes(train[id]);
  for (ValueId id : train.ports.balances) extras.mirrors += OutputLog::host_bytes(train[id]);
  extras.mirrors += OutputLog::host_bytes(evaluate[evaluate.ports.outputs]);
  for (const LoweredProgram* program : {&train, &evaluate}) extras.mirrors += InputFeed::host_bytes(*program);
  extras.inputs = InputFeed::device_bytes(train);
  if (what.nccl) {
    add_nccl(extras, train);
  } else {
    ScratchBytes staging;
    add_staging(staging, train);
    add_staging(staging, evaluate);
    extras.mirrors += staging.sum;
    add_twins(extras, train);
    add_twins(extras, evaluate, /*theirs=*/evaluate.params);
    extras.staged += what.exchange_bytes;
  }
  return extras;
}

}  // namespace ct
