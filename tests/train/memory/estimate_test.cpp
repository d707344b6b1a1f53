#include "train/memory/estimate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "comm/host/threads.h"
#include "comm/reduction/tree_sum.h"
#include "train/config/load.h"
#include "train/memory/resident_images.h"

namespace ct {
namespace {

Config config(const std::string& rest = "") {
  return load_config_text(
      "model: {name: cnn}\noptimizer: {type: Adam, params: {lr: 0.1}}\n"
      "train: {eval_batch_size: 4}\n" +
          (rest.empty() ? "train_batch_size: 24\ntrain_micro_batch_size_per_gpu: 2\n" : rest),
      "test.yaml");
}

constexpr DataSpec kData = {{3, 32, 32}, 10, 100};

StageEstimate estimate(const Config& config, int ranks, int stage, int64_t data_set_bytes = 0) {
  return estimate_stage(*make_cpu_backend(),
                        {.config = config,
                         .batch = batch_for(config.batch, ranks),
                         .ranks = ranks,
                         .data = kData,
                         .data_set_bytes = data_set_bytes},
                        stage);
}

// What a tree really makes, for pushes of all ranks' leaves at every micro-step.
TEST(Estimate, CountsTheLevelsThatATreeTouches) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int accumulation = 1; accumulation <= 9; ++accumulation) {
      constexpr int64_t kNumel = 4;
      TreeSum tree(kNumel, ranks * accumulation);
      std::vector<float> leaf(kNumel, 1), sum(kNumel);
      const std::vector<const float*> leaves(static_cast<size_t>(ranks), leaf.data());
      for (int j = 1; j < accumulation; ++j) tree.push(leaves);
      tree.finish(leaves, sum.data());
      EXPECT_EQ(touched_levels(ranks, accumulation) * kNumel * static_cast<int64_t>(sizeof(float)),
                static_cast<int64_t>(tree.bytes()))
          << ranks << " ranks, accumulation " << accumulation;
      EXPECT_EQ(sum[0], static_cast<float>(ranks * accumulation));
    }
}

struct Used {
  MemoryUse use;                   // rank 0's, with what the evaluator adds
  double elements = 0, bytes = 0;  // moved in one step, mean over ranks
};

Used used(const Config& asked, int ranks, int stage) {
  Config config = asked;
  config.zero_optimization.stage = stage;
  std::vector<Used> all(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& comm) {
    const auto backend = make_cpu_backend();
    backend->enter_thread();
    const Programs programs = lower_programs(config, batch_for(config.batch, ranks), {comm.rank(), ranks}, kData);
    const Schedule schedule = step_schedule(config, {1});
    Engine engine(*backend, comm, programs.train, schedule,
                  {.least_arena = plan_program(*backend, programs.evaluate).arena_bytes});
    const Evaluator evaluator(*backend, comm, programs.evaluate,
                              {.params = engine.params(), .arena = engine.bound().arena()});
    initialize(engine, programs.graph, 1);
    const Traffic before = comm.traffic(TrafficKind::training);
    for (int j = 0; j < programs.train.distribution.accumulation; ++j) engine.micro_step();
    engine.update();
    const Traffic moved = comm.traffic(TrafficKind::training) - before;
    Used& mine = all[static_cast<size_t>(comm.rank())];
    mine = {engine.bound().allocated(), static_cast<double>(moved.elements), static_cast<double>(moved.bytes)};
    const MemoryUse more = evaluator.bound().allocated();
    mine.use.weights += more.weights;
    mine.use.activations += more.activations;
    mine.use.other += more.other;
    return 0;
  });
  Used result{.use = all[0].use};
  for (const Used& u : all) {
    result.elements += u.elements / ranks;
    result.bytes += u.bytes / ranks;
  }
  return result;
}

TEST(Estimate, IsWhatAnEngineAndItsEvaluatorAllocateAndMove) {
  const std::string batch = "train_batch_size: 24\ntrain_micro_batch_size_per_gpu: ";
  Config averaged = config();
  averaged.train.ema.decay = 0.99;
  for (const Config& c :
       {config(), averaged, config(batch + "4\n"), config(batch + "2\ncommunication: {reproducible: false}\n")})
    for (const int ranks : {1, 2, 3})
      for (int stage = 0; stage <= 3; ++stage) {
        const StageEstimate e = estimate(c, ranks, stage);
        const Used u = used(c, ranks, stage);
        const MemoryUse& use = e.rank.use;
        SCOPED_TRACE(testing::Message() << ranks << " ranks, stage " << stage);
        EXPECT_EQ(use.weights, u.use.weights);
        EXPECT_EQ(use.gradients, u.use.gradients);
        EXPECT_EQ(use.optimizer, u.use.optimizer);
        EXPECT_EQ(use.activations, u.use.activations);
        EXPECT_EQ(use.exchange, u.use.exchange);
        EXPECT_EQ(use.other, u.use.other);
        EXPECT_NEAR(e.traffic.training.elements, u.elements, 1e-3);
        EXPECT_NEAR(e.traffic.training.bytes, u.bytes, 1e-3);
      }
}

TEST(Estimate, AHostHasItsRanksAndOnceTheProgramAndTheData) {
  const StageEstimate e = estimate(config(), 3, 2, 1000);
  EXPECT_EQ(e.host, program_bytes() + 1000 + 3 * e.rank.total());
  EXPECT_EQ(e.rank.total(), e.rank.use.total() + e.rank.snapshot + e.rank.overhead);
}

TEST(Estimate, OnlyAsynchronousSavesKeepASnapshotOfWeightsAndMoments) {
  const Config asynchronous = config();
  const Graph graph = lower_programs(asynchronous, batch_for(asynchronous.batch, 1), {}, kData).graph;
  const int64_t snapshot = estimate(asynchronous, 1, 0).rank.snapshot;
  EXPECT_GE(snapshot, 12 * graph.parameter_count());
  EXPECT_LE(snapshot, 12 * 1.02 * static_cast<double>(graph.parameter_count()));
  Config waiting = asynchronous;
  waiting.checkpoint.asynchronous = false;
  EXPECT_EQ(estimate(waiting, 1, 0).rank.snapshot, 0);
}

TEST(Estimate, ALargerEvaluationNeedsALargerArena) {
  Config c = config();
  c.train.eval_batch_size = 2;
  const int64_t shared = estimate(c, 1, 0).rank.use.activations;
  c.train.eval_batch_size = 100;
  EXPECT_GT(estimate(c, 1, 0).rank.use.activations, shared);
  c.train.eval_batch_size = 1;
  EXPECT_EQ(estimate(c, 1, 0).rank.use.activations, shared);
}

/// The rule: with the images of all ranks of the GPU, at most 9/10 of its free memory.
TEST(Estimate, ImagesLieOnAGpuIfTheyFitBesideTheRest) {
  constexpr int64_t kImages = 500;
  const Config c = config("train_batch_size: 24\ntrain_micro_batch_size_per_gpu: 2\ndevice: cuda\n");
  const auto backend = make_cpu_backend();
  EstimateOf what{.config = c, .batch = batch_for(c.batch, 2), .ranks = 2, .data = kData};
  what.sharing.ranks_a_device = 2;
  const auto fit = [&](std::optional<int64_t> available) {
    const auto room = available ? std::optional(Backend::Room{"a GPU", *available, *available}) : std::nullopt;
    return images_fit(*backend, what, /*stage=*/1, room);
  };
  EXPECT_FALSE(fit(std::nullopt));  // of a set of unknown size
  const int64_t without = estimate_with_images(*backend, what, 1, {}).device;
  what.data.train_images = kImages;
  const StageEstimate with = estimate_with_images(*backend, what, 1, {});
  EXPECT_EQ(with.rank.use.images, kImages * 3072);
  // The rest differs a little: 384 rows of 64 steps, 256 bytes each, and no pixels among the inputs.
  EXPECT_NEAR(with.device, without + 2 * kImages * 3072, 2 * 100 * 1024);
  EXPECT_TRUE(fit(std::nullopt));
  EXPECT_TRUE(fit(with.device / 9 * 10 + 100));
  EXPECT_FALSE(fit(with.device / 9 * 10 - 100));
  EXPECT_FALSE(fit(with.device));
  what.data.direct = false;
  EXPECT_FALSE(fit(std::nullopt));
  what.data.direct = true;
  const Config cpu = config();
  EXPECT_FALSE(may_be_resident(cpu, what.data));
}

TEST(Estimate, FindsTheLargestMicroBatchThatFits) {
  const Config c = config("train_batch_size: 960\ntrain_micro_batch_size_per_gpu: 2\n");
  const auto backend = make_cpu_backend();
  EstimateOf what{.config = c, .batch = batch_for(c.batch, 2), .ranks = 2, .data = kData};
  const auto host = [&](int64_t micro) {
    EstimateOf other = what;
    other.batch = {960, micro, 480 / micro};
    return estimate_stage(*backend, other, 0).host;
  };
  const auto largest = [&](int64_t bytes, int64_t least_accumulation = 1) {
    return largest_micro_batch(*backend, what, /*stage=*/0, {.host = bytes}, least_accumulation);
  };
  EXPECT_EQ(largest(int64_t{1} << 40), (BatchSizes{960, 480, 1}));
  EXPECT_EQ(largest(int64_t{1} << 40, 3), (BatchSizes{960, 160, 3}));
  EXPECT_EQ(largest(host(240)), (BatchSizes{960, 240, 2}));
  EXPECT_EQ(largest(1000), std::nullopt);
}

// With a GPU. Sizes are those of the CPU's workspaces; tests/cuda/memory_test.cpp compares with what is allocated.

Config gpu_config(const std::string& rest = "train_batch_size: 24\ntrain_micro_batch_size_per_gpu: 2\n") {
  return config(rest + "device: cuda\n");
}

StageEstimate estimate_gpu(const Config& config, int ranks, int stage, const Sharing& sharing = {}) {
  return estimate_stage(
      *make_cpu_backend(),
      {.config = config, .batch = batch_for(config.batch, ranks), .ranks = ranks, .data = kData, .sharing = sharing},
      stage);
}

TEST(GpuEstimate, TheGpuHoldsTheProgramsAndTheHostTheCopies) {
  const Config c = gpu_config();
  const StageEstimate cpu = estimate(config(), 1, 0), gpu = estimate_gpu(c, 1, 0);
  const RankMemory& rank = gpu.rank;
  EXPECT_EQ(cpu.device, 0);
  EXPECT_EQ(cpu.rank.mirrors + cpu.rank.staged + cpu.rank.received, 0);
  EXPECT_EQ(rank.use.weights, cpu.rank.use.weights);
  EXPECT_EQ(rank.use.activations, cpu.rank.use.activations);
  EXPECT_EQ(gpu.device, rank.use.total());
  EXPECT_EQ(gpu.host, program_bytes() + rank.host());
  EXPECT_EQ(rank.host(), rank.mirrors + rank.snapshot + rank.overhead);
  // A copy of masters and moments for saving, and of inputs and losses.
  EXPECT_GE(rank.mirrors, 12 * gpu.parameters + 4 * (2 + 4) * static_cast<int64_t>(kData.sample.bytes()));
}

TEST(GpuEstimate, OffloadedStateIsTheHosts) {
  Config c = gpu_config();
  const StageEstimate before = estimate_gpu(c, 1, 0);
  c.zero_optimization.offload_optimizer_device = OffloadDevice::cpu;
  const StageEstimate after = estimate_gpu(c, 1, 0);
  EXPECT_EQ(after.rank.use.optimizer, 0);
  EXPECT_GE(after.rank.use.host, 12 * after.parameters);
  EXPECT_LT(after.device, before.device);
  EXPECT_GE(after.rank.host(), after.rank.use.host + after.rank.mirrors);
}

TEST(GpuEstimate, WhoCarriesTheSumsDecidesWhereTheirBuffersAre) {
  const Config c = gpu_config("train_batch_size: 18\ntrain_micro_batch_size_per_gpu: 2\n");
  for (int stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    const RankMemory nccl = estimate_gpu(c, 3, stage, {.nccl = true}).rank, staged = estimate_gpu(c, 3, stage).rank;
    EXPECT_EQ(nccl.staged, 0);
    EXPECT_EQ(staged.received, 0);
    // Three ranks' parts of the largest bucket; partial sums of three micro-steps.
    EXPECT_GT(nccl.received, 0);
    EXPECT_GT(nccl.partial_sums, 0);
    EXPECT_EQ(nccl.use.gradients - nccl.partial_sums, staged.use.gradients);
    EXPECT_EQ(staged.partial_sums, 0);
    EXPECT_GT(staged.staged, stage <= 1 ? 4 * estimate_gpu(c, 3, stage).parameters : 0);
  }
}

std::string refusal(const Config& config, int ranks, const Sharing& sharing, int64_t available) {
  try {
    require_device_memory(
        *make_cpu_backend(),
        {.config = config, .batch = batch_for(config.batch, ranks), .ranks = ranks, .data = kData, .sharing = sharing},
        Backend::Room{"GPU 0 (a test's)", available, 2 * available});
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::memory);
    return e.what();
  }
  return "";
}

TEST(GpuEstimate, RanksThatShareAGpuNeedItsMemoryTogether) {
  const Config c = gpu_config("train_batch_size: 24\ntrain_micro_batch_size_per_gpu: 12\n");
  const int64_t alone = estimate_gpu(c, 2, 0).device;
  EXPECT_EQ(refusal(c, 2, {}, alone), "");
  EXPECT_EQ(refusal(c, 2, {.ranks_a_device = 2}, 2 * alone), "");
  EXPECT_NE(refusal(c, 2, {}, alone - 1), "");
  const std::string line = refusal(c, 2, {.ranks_a_device = 2}, 2 * alone - 1);
  for (const std::string& part :
       {str(alone, " for each of the 2 ranks that share the GPU: ", 2 * alone, " in all"), str("GPU 0 (a test's)"),
        str(2 * alone - 1, " of "), std::string("for weights"), std::string("zero_optimization.stage 1 is the lowest"),
        std::string("micro-batch (train_micro_batch_size_per_gpu) of 4 is the largest")})
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in: " << line;
  EXPECT_NE(refusal(c, 2, {.ranks_a_device = 2}, 1000).find("fewer ranks on each"), std::string::npos);
}

TEST(GpuEstimate, DevicesWithoutMemoryOfTheirOwnAreAskedNothing) {
  const Config c = config();
  require_device_memory(*make_cpu_backend(), {.config = c, .batch = batch_for(c.batch, 1), .data = kData},
                        std::nullopt);
}

}  // namespace
}  // namespace ct
