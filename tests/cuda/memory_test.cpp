// The account of memory (train/memory/estimate.h) against what the program allocates: the stand-in for CUDA counts
// every byte of device and page-locked memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "comm/host/threads.h"
#include "runtime.h"
#include "train/agree.h"
#include "train/config/load.h"
#include "train/memory/estimate.h"

namespace ct {
namespace {

class GpuMemory : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(on_host::allocated_bytes(), 0u);
    unsetenv("ON_HOST_DEVICES");
    on_host::restart();
  }
  static void gpus(const char* count) {
    setenv("ON_HOST_DEVICES", count, /*overwrite=*/1);
    on_host::restart();
  }
};

Config config(const std::string& rest) {
  return load_config_text(
      "model: {name: cnn_plain}\noptimizer: {type: Adam, params: {lr: 0.1}}\ndevice: cuda\n"
      "train: {eval_batch_size: 4}\n" +
          rest,
      "test.yaml");
}
std::string batch(int train, int micro) {
  return str("train_batch_size: ", train, "\ntrain_micro_batch_size_per_gpu: ", micro, "\n");
}

struct Compared {
  Sharing sharing;
  int64_t device = 0;     // of the first GPU, as estimated from rank 0
  int64_t foretold = 0;   // on GPUs and page-locked on the host, the sum over ranks
  int64_t allocated = 0;  // likewise
  // Of rank 0, where collectives go through the host: the host's side.
  int64_t staged_foretold = 0, staged = 0;
};

constexpr DataSpec kData = {
    .sample = {3, 32, 32}, .classes = 10, .test_images = 100, .train_images = 300, .resident = true};

Compared compare(const Config& config, int ranks) {
  Compared compared;
  const BatchSizes batch = batch_for(config.batch, ranks);
  const int stage = static_cast<int>(config.zero_optimization.stage);
  run_ranks(ranks, [&](Communicator& comm) {
    RankDevice device(config, comm);
    Backend& backend = device.backend();
    const auto alone = [&](const auto& work) {  // rank 0, while the others allocate nothing
      comm.barrier();
      if (comm.rank() == 0) work();
      comm.barrier();
    };
    alone([&] {
      compared.sharing = foretell_sharing(config, ranks);
      EXPECT_EQ(compared.sharing.nccl, device.sharing().nccl);
      EXPECT_EQ(compared.sharing.ranks_a_device, device.sharing().ranks_a_device);
      for (int r = ranks - 1; r >= 0; --r) {
        const StageEstimate estimate = estimate_stage(
            backend,
            {.config = config, .batch = batch, .ranks = ranks, .rank = r, .data = kData, .sharing = compared.sharing},
            stage);
        compared.foretold += estimate.rank.device() + estimate.rank.use.host + estimate.rank.mirrors;
        compared.device = estimate.device;
        compared.staged_foretold = estimate.rank.staged;
        EXPECT_EQ(estimate.device, compared.sharing.ranks_a_device * estimate.rank.device());
      }
      compared.allocated = -static_cast<int64_t>(on_host::allocated_bytes());
    });
    const Programs programs = lower_programs(config, batch, {comm.rank(), ranks}, kData);
    const Schedule schedule = step_schedule(config, {1});
    Engine engine(backend, device.collectives(), programs.train, schedule,
                  {.least_arena = plan_program(backend, programs.evaluate).arena_bytes});
    const Evaluator evaluator(backend, device.collectives(), programs.evaluate,
                              {.params = engine.params(), .arena = engine.bound().arena()});
    initialize(engine, programs.graph, 1);
    if (config.communication.check_interval > 0)
      require_same_replicas(comm, replica_checksums(engine, programs.graph), programs.graph.parameters());
    alone([&] {
      compared.allocated += static_cast<int64_t>(on_host::allocated_bytes());
      compared.staged = static_cast<int64_t>(device.collectives().allocated_bytes());
    });
    device.collectives().finish();
    return 0;
  });
  return compared;
}

constexpr int64_t kAlignment = 256;  // of a few buffers that peers read
constexpr int64_t kTables = 1300;    // of the augmentation and tickets, a rank: not worth an account

TEST_F(GpuMemory, OfOneRankIsWhatItAllocates) {
  for (const char* more : {"", "bf16: {enabled: true}\n", "fp16: {enabled: true}\n",
                           "bf16: {enabled: true}\nzero_optimization: {offload_optimizer: {device: cpu}}\n",
                           "zero_optimization: {offload_optimizer: {device: cpu}}\n"})
    for (const int accumulation : {1, 4}) {
      SCOPED_TRACE(testing::Message() << more << accumulation << " micro-steps");
      const Compared c = compare(config(batch(2 * accumulation, 2) + more), 1);
      EXPECT_NEAR(c.allocated, c.foretold, kTables);
    }
}

TEST_F(GpuMemory, OfRanksIsWhatTheyAllocate) {
  gpus("2");
  for (const CommBackend backend : {CommBackend::automatic, CommBackend::threads})
    for (int stage = 0; stage <= 3; ++stage)
      for (const int accumulation : {1, 2}) {
        const bool bf16 = accumulation == 1;
        SCOPED_TRACE(testing::Message() << word_of(backend) << ", stage " << stage << (bf16 ? ", bf16, " : ", ")
                                        << accumulation);
        Config c = config(batch(4 * accumulation, 2));
        c.communication.backend = backend;
        c.communication.check_interval = bf16 ? 1 : 0;
        c.bf16.enabled = bf16;
        c.zero_optimization.stage = stage;
        const Compared found = compare(c, 2);
        EXPECT_EQ(found.sharing.nccl, backend == CommBackend::automatic);
        EXPECT_EQ(found.sharing.ranks_a_device, 1);
        EXPECT_NEAR(found.allocated, found.foretold, 2 * kTables);
        if (!found.sharing.nccl && accumulation == 1) {  // which makes no partial sums
          EXPECT_NEAR(found.staged, found.staged_foretold, kAlignment);
        }
      }
}

// A number of ranks that is no power of two: each rank's gradients are leaves, in partial sums on the GPU with NCCL.
TEST_F(GpuMemory, OfThreeRanksIsWhatTheyAllocate) {
  gpus("3");
  for (const int stage : {0, 2}) {
    SCOPED_TRACE(stage);
    Config c = config(batch(12, 2));
    c.zero_optimization.stage = stage;
    const Compared found = compare(c, 3);
    EXPECT_TRUE(found.sharing.nccl);
    EXPECT_NEAR(found.allocated, found.foretold, 3 * kTables);
  }
}

TEST_F(GpuMemory, OfRanksThatShareAGpuIsThatOfAllOfThem) {
  gpus("1");
  Config c = config(batch(6, 2));
  c.communication.share_device = true;
  const Compared found = compare(c, 3);
  EXPECT_EQ(found.sharing.ranks_a_device, 3);
  EXPECT_FALSE(found.sharing.nccl);
  EXPECT_NEAR(found.allocated, found.foretold, 3 * kTables);
  EXPECT_GT(found.device, 0);
  EXPECT_NEAR(found.staged, found.staged_foretold, kAlignment);
}

}  // namespace
}  // namespace ct
