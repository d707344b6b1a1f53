#include "train/memory/estimate.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/host.h"
#include "checkpoint/rows.h"
#include "comm/reduction/tree_sum.h"
#include "train/freezing.h"
#include "train/memory/gpu_extras.h"

namespace ct {
namespace {

constexpr int64_t kFloat = sizeof(float);

// What no plan knows, measured as the "rest" that tools/measure_estimate.py prints, over 1, 2 and 4 ranks and models
// from 0.06 to 11 million parameters.
constexpr int64_t kProgramBytes = 16'000'000;  // code and data of the program and its libraries
constexpr int64_t kRankBytes = 1'000'000;      // stacks, programs, the index of the images
constexpr int64_t kConvolutionBytes = 75'000;  // what oneDNN keeps of a prepared one

/// What the rank owns before element `end` of the flat order, without padding between parameters.
int64_t owned_elements(const LoweredProgram& program, int64_t end) {
  int64_t owned = 0;
  for (const Range& parameter : program.flat.parameters)
    for (const Range& part : program.shards.owned(program.distribution.rank, parameter))
      if (part.begin < end) owned += part.size();
  return owned;
}

/// Of a snapshot for saving: all weights, and every other state of what training changes.
int64_t snapshot_elements(const LoweredProgram& program) {
  return owned_elements(program, program.flat.numel) +
         (std::ssize(program.states) - 1) * owned_elements(program, program.flat.changing);
}

/// What reductions keep between micro-steps of the elements that this rank owns: see PieceSums.
int64_t partial_sum_bytes(const LoweredProgram& program) {
  const Distribution& d = program.distribution;
  const auto reduces = [](const Step& step) {
    const auto* comm = std::get_if<CommOp>(&step.op);
    return comm != nullptr && std::holds_alternative<ReduceScatter>(*comm);
  };
  if (std::none_of(program.micro.begin(), program.micro.end(), reduces)) return 0;
  const int64_t buffers = d.reproducible ? touched_levels(d.ranks, d.accumulation) : d.accumulation > 1;
  return buffers * owned_elements(program, program.flat.changing) * kFloat;
}

/// What a rank's heap keeps of memory that it needs now and then: initial values, and the buffers of the two threads
/// that save, which grow by copying.
int64_t kept_by_the_heap(const Graph& graph) {
  int64_t largest = 0;
  for (const Parameter& p : graph.parameters()) largest = std::max(largest, p.layout.numel() * kFloat);
  return largest + 4 * std::min(largest, static_cast<int64_t>(kBucketBytes));
}

int64_t convolutions(const Program& steps) {
  return std::count_if(steps.begin(), steps.end(), [](const Step& step) {
    const auto* op = std::get_if<ComputeOp>(&step.op);
    return op != nullptr && (std::holds_alternative<Conv2d>(*op) || std::holds_alternative<Conv2dGradW>(*op) ||
                             std::holds_alternative<Conv2dGradX>(*op));
  });
}

/// The parameters of the training program serve the evaluator too, and so does its arena, which is as large as the
/// larger of both wants it.
void add_evaluator(MemoryUse& use, const LoweredProgram& program, const MemoryPlan& plan) {
  const MemoryUse more = memory_use(program, plan);
  use.weights += more.weights - stored_bytes(program[program.params]);
  use.other += more.other;
  use.gathered_weights = std::max(use.gathered_weights, more.gathered_weights);
  use.activations = std::max(use.activations, plan.arena_bytes);
}

/// Scratch of operations outside the arena, which share it.
int64_t workspaces(Backend& backend, const LoweredProgram& program) {
  size_t most = 0;
  for (const Program* steps : {&program.refresh, &program.update})
    for (const Step& step : *steps)
      if (const auto* op = std::get_if<ComputeOp>(&step.op))
        most = std::max(most, backend.prepare(*op, program.values)->workspace_bytes());
  return static_cast<int64_t>(most);
}

/// Sums over ranks are made in the host's memory, unless NCCL makes them.
void add_gpu(RankMemory& rank, const GpuExtras& extras, bool nccl) {
  rank.on_gpu = true;
  rank.use.other += extras.updates + extras.inputs;
  rank.received = extras.received;
  rank.mirrors = extras.mirrors;
  rank.staged = extras.staged + (nccl ? 0 : rank.partial_sums);
  rank.partial_sums = extras.partial_sums;
}

int configured_stage(const EstimateOf& what) { return static_cast<int>(what.config.zero_optimization.stage); }

/// What to change so that the run fits into the limits.
std::string advice_for(Backend& backend, const EstimateOf& what, const Limits& limits) {
  if (const auto smaller =
          largest_micro_batch(backend, what, configured_stage(what), limits, what.batch.accumulation + 1))
    return str("use a micro-batch (train_micro_batch_size_per_gpu) of ", smaller->micro, ", the largest that fits");
  return str("no micro-batch fits: use ",
             what.config.train.recompute == Recompute::none ? "train.recompute: blocks, " : "",
             "fewer ranks, a train.eval_batch_size below ", what.config.train.eval_batch_size, ", or a smaller model");
}

}  // namespace

int64_t touched_levels(int ranks, int accumulation) {
  const int64_t leaves = int64_t{ranks} * accumulation, highest = std::max(1, TreeSum::level_count(leaves)) - 1;
  uint64_t touched = 0;  // a bit for each level: those of the counter after every push but the last
  for (int64_t j = 1; j < accumulation; ++j) touched |= static_cast<uint64_t>(j * ranks);
  const uint64_t below = (uint64_t{1} << highest) - 1;
  return std::popcount(touched & below) + ((touched & ~below) != 0 ? 1 : 0);
}

int64_t program_bytes() { return kProgramBytes; }

StageEstimate estimate_stage(Backend& backend, const EstimateOf& what, int stage) {
  // Of a run that unfreezes, the part that needs more.
  Config config = what.config.train.unfreeze_at > 0 ? without_freezing(what.config) : what.config;
  config.zero_optimization.stage = stage;
  const Programs programs = lower_programs(config, what.batch, {.rank = what.rank, .ranks = what.ranks}, what.data);
  const LoweredProgram& train = programs.train;

  StageEstimate estimate{
      .stage = stage, .parameters = programs.graph.parameter_count(), .traffic = step_traffic(train)};
  RankMemory& rank = estimate.rank;
  const MemoryPlan plan = plan_program(backend, train), evaluation = plan_program(backend, programs.evaluate);
  rank.use = memory_use(train, plan);
  rank.training = plan.arena_bytes;
  rank.evaluation = evaluation.arena_bytes;
  rank.use.other += workspaces(backend, train);
  rank.partial_sums = partial_sum_bytes(train);
  if (wants_cuda(config)) {
    const GpuExtras extras =
        gpu_extras({.train = train,
                    .evaluate = programs.evaluate,
                    .exchange_bytes = plan.exchange_bytes + evaluation.exchange_bytes,
                    .nccl = what.sharing.nccl,
                    .compares_replicas = what.ranks > 1 && config.communication.check_interval > 0});
    add_gpu(rank, extras, what.sharing.nccl);
  }
  rank.use.gradients += rank.partial_sums;
  for (const Value& value : train.values)  // those of a rank that adds its micro-steps by itself
    if (value.base == kNone && value.category == MemoryCategory::partial_sums) rank.partial_sums += stored_bytes(value);
  add_evaluator(rank.use, programs.evaluate, evaluation);
  if (config.checkpoint.asynchronous) rank.snapshot = snapshot_elements(train) * kFloat;
  rank.overhead = kRankBytes + kept_by_the_heap(programs.graph);
  for (const Program* steps : {&train.micro, &train.last, &programs.evaluate.micro})
    if (!rank.on_gpu) rank.overhead += kConvolutionBytes * convolutions(*steps);
  if (!what.data.direct) {
    const int workers = loader_workers(config.data.workers, what.ranks);
    for (const LoweredProgram* program : {&train, &programs.evaluate})
      rank.overhead += static_cast<int64_t>(
          Loader::bytes(what.data.sample, (*program)[program->ports.labels].shape.numel(), workers));
  }
  estimate.device = what.sharing.ranks_a_device * rank.device();
  estimate.host = program_bytes() + what.data_set_bytes + what.ranks * rank.host();
  return estimate;
}

/// Would a run with that batch fit, and begin? Some micro-batches are too small: for a batch norm, or to be mixed.
static bool allowed(Backend& backend, const EstimateOf& what, int stage, const Limits& limits) {
  try {
    return limits.allow(estimate_stage(backend, what, stage));
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    return false;
  }
}

std::optional<BatchSizes> largest_micro_batch(Backend& backend, const EstimateOf& what, int stage, const Limits& limits,
                                              int64_t least_accumulation) {
  const int64_t images = what.batch.train / what.ranks;  // of a rank, in a step
  for (int64_t accumulation = least_accumulation; accumulation <= images; ++accumulation) {
    if (images % accumulation != 0) continue;
    EstimateOf smaller = what;
    smaller.batch = {what.batch.train, images / accumulation, accumulation};
    if (allowed(backend, smaller, stage, limits)) return smaller.batch;
  }
  return std::nullopt;
}

std::optional<StageAndBatch> smaller_in_both(Backend& backend, const EstimateOf& what, const Limits& limits) {
  for (int stage = configured_stage(what) + 1; stage <= 3 && what.ranks > 1; ++stage)
    if (const auto batch = largest_micro_batch(backend, what, stage, limits)) return StageAndBatch{stage, *batch};
  return std::nullopt;
}

void require_device_memory(Backend& backend, const EstimateOf& what, const std::optional<Backend::Room>& room) {
  if (!room) return;
  const Limits limits{.device = room->available};
  const int configured = configured_stage(what), sharing = what.sharing.ranks_a_device;
  const StageEstimate needed = estimate_stage(backend, what, configured);
  if (limits.allow(needed)) return;

  std::string advice;
  for (int stage = configured + 1; stage <= 3 && what.ranks > 1 && advice.empty(); ++stage)
    if (limits.allow(estimate_stage(backend, what, stage)))
      advice = str("zero_optimization.stage ", stage, " is the lowest that fits");
  if (const auto smaller = largest_micro_batch(backend, what, configured, limits, what.batch.accumulation + 1))
    advice += str(advice.empty() ? "" : "; ", "a micro-batch (train_micro_batch_size_per_gpu) of ", smaller->micro,
                  " is the largest that fits");
  if (advice.empty())
    if (const auto both = smaller_in_both(backend, what, limits))
      advice = str("zero_optimization.stage ", both->stage, " with a micro-batch (train_micro_batch_size_per_gpu) of ",
                   both->batch.micro, " fits");
  if (advice.empty())
    advice =
        str("no ZeRO stage and no micro-batch fits; set zero_optimization.offload_optimizer.device: cpu or "
            "bf16.enabled: true, or use more GPUs, ",
            sharing > 1 ? "fewer ranks on each, " : "", "or the CPU");
  const RankMemory& rank = needed.rank;
  const std::string of_all =
      sharing > 1 ? str(" for each of the ", sharing, " ranks that share the GPU: ", needed.device) : "";
  fail(ExitCode::memory, "out of memory on ", room->device, ": ", rank.use.weights, " bytes for weights, ",
       rank.use.gradients, " for gradients, ", rank.use.optimizer, " for optimizer state, ", rank.use.activations,
       " for activations and workspace, ", rank.use.exchange, " for gradient buckets, ", rank.received,
       " for the receive buffers of NCCL, ", rank.use.other, " for the rest: ", rank.device(), of_all, " in all, but ",
       room->available, " of ", room->total, " are free; ", advice);
}

void require_group_memory(Backend& backend, const EstimateOf& what) {
  const Limits limits{.host = host_memory().group_limit};
  if (!limits.host) return;
  const StageEstimate needed = estimate_stage(backend, what, configured_stage(what));
  if (!limits.allow(needed))
    fail(ExitCode::memory, "out of memory on this host: its ranks need ", needed.host,
         " bytes, but their control group may have ", *limits.host, "; ", advice_for(backend, what, limits));
}

std::string micro_batch_advice(Backend& backend, const EstimateOf& what) {
  constexpr int64_t kPlanning = 64'000'000;  // oneDNN crashes where it has no memory for the code of its primitives
  try {
    if (host_memory().available < kPlanning) return "";
    const auto room = backend.room();
    const Limits limits{.host = host_memory().available,
                        .device = room ? std::optional(room->available) : std::nullopt};
    return advice_for(backend, what, limits);
  } catch (const std::exception&) {  // with so little memory
    return "";
  }
}

}  // namespace ct
