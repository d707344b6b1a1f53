#include "comm/nccl/nccl.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/exercise.h"
#include "comm/host/threads.h"
#include "comm/reference.h"
#include "cuda/twins/nccl_stand_in.h"
#include "device/cuda/cuda_backend.h"
#include "run.h"
#include "runtime.h"
#include "selftest/collectives.h"

namespace ct {
namespace {

using std::chrono::milliseconds;

ExitCode code_of(const std::function<void()>& act, std::string* message = nullptr) {
  try {
    act();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return ExitCode::done;
}

/// What the exercise knows: collectives that are done when they return, and memory that the host may touch.
class Awaited final : public Communicator {
 public:
  Awaited(Communicator& comm, Backend& backend) : comm_(comm), backend_(backend) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string description() const override { return comm_.description(); }
  std::byte* allocate(size_t bytes) override {
    std::byte* memory = comm_.allocate(bytes);
    backend_.wait();
    return memory;
  }
  std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order) override {
    return std::make_unique<Launch>(comm_.all_reduce(data, order), backend_);
  }
  std::unique_ptr<Reduction> reduce_scatter(std::span<float> whole, float* shard, Ownership ranges, int64_t leaves,
                                            SumOrder order) override {
    return std::make_unique<Sum>(comm_.reduce_scatter(whole, shard, std::move(ranges), leaves, order), backend_);
  }
  std::unique_ptr<Collective> all_gather(std::span<std::byte> whole, std::span<std::byte> shard, Ownership ranges,
                                         TrafficKind kind) override {
    return std::make_unique<Launch>(comm_.all_gather(whole, shard, std::move(ranges), kind), backend_);
  }
  Traffic traffic(TrafficKind kind) const override { return comm_.traffic(kind); }
  bool overlaps() const override { return comm_.overlaps(); }
  bool recordable() const override { return comm_.recordable(); }
  size_t allocated_bytes() const override { return comm_.allocated_bytes(); }
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override { comm_.gather_all(mine, all); }
  void broadcast(std::span<std::byte> data, int root) override { comm_.broadcast(data, root); }
  void barrier() override { comm_.barrier(); }
  Heartbeat& heartbeat() override { return comm_.heartbeat(); }
  bool abort(int exit_code) noexcept override { return comm_.abort(exit_code); }
  bool aborted() const noexcept override { return comm_.aborted(); }
  void finish() override { comm_.finish(); }

 private:
  struct Launch final : Collective {
    Launch(std::unique_ptr<Collective> it, Backend& backend) : it(std::move(it)), backend(backend) {}
    void launch() override {
      backend.enter_thread();
      it->launch();
      backend.wait();
    }
    std::unique_ptr<Collective> it;
    Backend& backend;
  };
  struct Sum final : Reduction {
    Sum(std::unique_ptr<Reduction> it, Backend& backend) : it(std::move(it)), backend(backend) {}
    void push() override {
      backend.enter_thread();
      it->push();
      backend.wait();
    }
    void finish() override {
      backend.enter_thread();
      it->finish();
      backend.wait();
    }
    size_t bytes() const override { return it->bytes(); }
    std::unique_ptr<Reduction> it;
    Backend& backend;
  };
  Communicator& comm_;
  Backend& backend_;
};

/// Four GPUs.
class Nccl : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    set("ON_HOST_DEVICES", "4");
    on_host::nccl_ends();
  }
  void TearDown() override {
    EXPECT_EQ(on_host::live_nccl_communicators(), 0u);
    EXPECT_EQ(on_host::nccl_complaints(), std::vector<std::string>{});
    EXPECT_EQ(on_host::allocated_bytes(), 0u);
    on_host::nccl_options() = {};
    for (const char* name : set_) unsetenv(name);
    on_host::restart();
  }
  void set(const char* name, const char* value) {
    setenv(name, value, /*overwrite=*/1);
    set_.push_back(name);
    on_host::restart();
  }
  /// For tests in which a launch returns before its peers come, as it does on a GPU.
  static void wait_in_streams() { on_host::runtime_options().streams = on_host::RuntimeOptions::Streams::lazy; }

 private:
  std::vector<const char*> set_;
};

using Body = std::function<void(cuda::CudaBackend&, Communicator&)>;

/// Ranks as threads, each with a GPU; finish() is the body's.
void run_gpus(int ranks, const Body& body) {
  run_ranks(ranks, [&](Communicator& control) {
    cuda::CudaBackend backend({.device = control.rank()});
    const auto comm = make_nccl(backend, control, {});
    body(backend, *comm);
    return 0;
  });
}

/// Device memory as floats, with the host's side of it.
struct Floats {
  Floats(cuda::CudaBackend& backend, Communicator& comm, int64_t numel)
      : backend(backend),
        device(reinterpret_cast<float*>(comm.allocate(static_cast<size_t>(numel) * sizeof(float))),
               static_cast<size_t>(numel)),
        memory(backend.allocate_host(device.size_bytes())),
        host(reinterpret_cast<float*>(memory.data()), device.size()) {}
  void upload(const std::vector<float>& values) {
    backend.wait();
    std::ranges::copy(values, host.begin());
    backend.copy(device.data(), host.data(), device.size_bytes());
  }
  std::span<const float> download() {
    backend.copy(host.data(), device.data(), device.size_bytes());
    backend.wait();
    return host;
  }
  std::span<std::byte> bytes() const { return std::as_writable_bytes(device); }

  cuda::CudaBackend& backend;
  std::span<float> device;
  Memory memory;
  std::span<float> host;
};

/// One range a rank, all of `numel` floats, packed in the shard.
Ownership even_ranges(int ranks, int64_t numel) {
  Ownership ranges;
  for (int r = 0; r < ranks; ++r) ranges.push_back({{.whole = r * numel * 4, .shard = 0, .elements = numel}});
  return ranges;
}

TEST_P(Nccl, DoesWhatEveryCommunicatorMust) {
  set("ON_HOST_PROTECT", "none");
  run_gpus(GetParam(), [&](cuda::CudaBackend& backend, Communicator& comm) {
    EXPECT_EQ(comm.description(), str(GetParam(), GetParam() == 1 ? " rank" : " ranks", ", NCCL 2.28.9"));
    EXPECT_TRUE(comm.recordable());
    Awaited awaited(comm, backend);
    exercise(awaited);
    comm.finish();
  });
  EXPECT_GT(on_host::finished_nccl_operations(), 0u);
}

/// Everything that a step has, recorded and replayed with new numbers: the leaves' count lives on the device.
TEST_P(Nccl, RecordedIsDirect) {
  constexpr int64_t kNumel = 24, kSteps = 3;  // of a rank's range; micro-steps
  const int ranks = GetParam();
  run_gpus(ranks, [&](cuda::CudaBackend& backend, Communicator& comm) {
    Floats whole(backend, comm, ranks * kNumel), shard(backend, comm, kNumel), all(backend, comm, ranks * kNumel);
    std::vector<std::unique_ptr<Floats>> leaves;
    for (int64_t j = 0; j < kSteps; ++j) leaves.push_back(std::make_unique<Floats>(backend, comm, ranks * kNumel));
    const Ownership ranges = even_ranges(ranks, kNumel);
    const auto reduction = comm.reduce_scatter(whole.device, shard.device.data(), ranges, ranks * kSteps);
    const auto gather = comm.all_gather(all.bytes(), shard.bytes(), ranges);
    const auto again = comm.all_reduce(all.device);
    const auto step = [&] {
      for (int64_t j = 0; j < kSteps; ++j) {
        backend.copy(whole.device.data(), leaves[static_cast<size_t>(j)]->device.data(), whole.device.size_bytes());
        j + 1 < kSteps ? reduction->push() : reduction->finish();
      }
      gather->launch();
      again->launch();
    };
    std::unique_ptr<Replay> replay;
    for (int round = 0; round < 4; ++round) {
      const int64_t first = round * ranks * kSteps;
      for (int64_t j = 0; j < kSteps; ++j)
        leaves[static_cast<size_t>(j)]->upload(random_leaf(first + j * ranks + comm.rank(), ranks * kNumel, false));
      if (round == 1) replay = backend.record(step);
      replay ? replay->launch() : step();
      std::vector<std::vector<float>> of_step;
      for (int64_t i = 0; i < ranks * kSteps; ++i) of_step.push_back(random_leaf(first + i, ranks * kNumel, false));
      const std::vector<float> sum = reference_tree(of_step);
      const auto want = reference_tree(std::vector(static_cast<size_t>(ranks), sum));
      EXPECT_TRUE(same_bits(all.download(), want)) << "round " << round;
    }
    replay.reset();
    comm.finish();
  });
}

/// Every number of ranks uses every call of the library: one rank, which may be all that a machine has, sends to
/// itself.
TEST_P(Nccl, SelftestOfCollectivesHolds) {
  run_gpus(GetParam(), [&](cuda::CudaBackend& backend, Communicator& comm) {
    const std::vector<CollectiveResult> results = run_collectives(backend, comm, /*numel=*/300);
    EXPECT_EQ(results.size(), 12u);
    for (const CollectiveResult& result : results) EXPECT_EQ(result.problem, "") << result.name;
    comm.finish();
  });
}

/// Where order does not matter and ranges are even, the library adds: here from the last rank to the first.
TEST_P(Nccl, AddsEvenPiecesItself) {
  constexpr int64_t kNumel = 10;
  const int ranks = GetParam();
  run_gpus(ranks, [&](cuda::CudaBackend& backend, Communicator& comm) {
    const Ownership ranges = even_ranges(ranks, kNumel);
    for (const int64_t micro_steps : {1, 3}) {
      Floats whole(backend, comm, ranks * kNumel), shard(backend, comm, kNumel);
      const auto reduction =
          comm.reduce_scatter(whole.device, shard.device.data(), ranges, ranks * micro_steps, SumOrder::any);
      EXPECT_EQ(reduction->bytes(), micro_steps == 1 ? 0u : kNumel * sizeof(float));
      std::vector<float> want(kNumel);
      for (int64_t j = 0; j < micro_steps; ++j) {
        whole.upload(random_leaf(j * ranks + comm.rank(), ranks * kNumel, false));
        j + 1 < micro_steps ? reduction->push() : reduction->finish();
        for (int64_t i = 0; i < kNumel; ++i) {
          const auto at = static_cast<size_t>(comm.rank() * kNumel + i);
          float sum = random_leaf(j * ranks + ranks - 1, ranks * kNumel, false)[at];
          for (int64_t r = ranks - 1; r-- > 0;) sum += random_leaf(j * ranks + r, ranks * kNumel, false)[at];
          want[static_cast<size_t>(i)] = j == 0 ? sum : sum + want[static_cast<size_t>(i)];
        }
      }
      EXPECT_TRUE(same_bits(shard.download(), want)) << micro_steps << " micro-steps";
    }
    comm.finish();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Nccl, testing::Values(1, 2, 3, 4));

TEST_P(Nccl, FinishedIsDestroyedAndLeftIsAborted) {
  const auto ranks = static_cast<size_t>(GetParam());
  const auto sum = [](cuda::CudaBackend& backend, Communicator& comm) {
    Floats data(backend, comm, 64);
    const auto collective = comm.all_reduce(data.device);
    collective->launch();
    backend.wait();
  };
  run_gpus(GetParam(), [&](cuda::CudaBackend& backend, Communicator& comm) {
    sum(backend, comm);
    comm.finish();
    EXPECT_FALSE(comm.aborted());  // an end in order is no failure
  });
  const on_host::NcclEnds good = on_host::nccl_ends();
  EXPECT_EQ(good.destroyed, ranks);
  EXPECT_EQ(good.aborted, 0u);
  run_gpus(GetParam(), sum);
  const on_host::NcclEnds left = on_host::nccl_ends();
  EXPECT_EQ(left.destroyed, 0u);
  EXPECT_EQ(left.aborted, ranks);
}

/// Collectives bring kernels of their own: they are there before the first of them runs.
TEST_P(Nccl, NothingIsLoadedBesideACollective) {
  wait_in_streams();
  run_gpus(GetParam(), [&](cuda::CudaBackend& backend, Communicator& comm) {
    constexpr int64_t kNumel = 16;
    Floats whole(backend, comm, comm.size() * kNumel), shard(backend, comm, kNumel);
    const Ownership ranges = even_ranges(comm.size(), kNumel);
    const auto sum = comm.reduce_scatter(whole.device, shard.device.data(), ranges, 3 * comm.size());
    const auto gather = comm.all_gather(whole.bytes(), shard.bytes(), ranges);
    comm.barrier();
    sum->push();
    sum->push();
    sum->finish();
    gather->launch();
    backend.wait();
    comm.barrier();
    comm.finish();
  });
  EXPECT_EQ(on_host::complaints(), std::vector<std::string>{});
}

TEST_F(Nccl, OrdersThatDifferAreReported) {
  wait_in_streams();
  on_host::nccl_options().patience = milliseconds(5000);
  std::atomic<int> reported{0};
  run_ranks(2, [&](Communicator& control) {
    cuda::CudaBackend backend({.device = control.rank()});
    const auto comm = make_nccl(backend, control, {});
    Floats small(backend, *comm, 32), large(backend, *comm, 64);
    const auto of_small = comm->all_reduce(small.device), of_large = comm->all_reduce(large.device);
    control.rank() == 0 ? of_small->launch() : of_large->launch();
    control.rank() == 0 ? of_large->launch() : of_small->launch();
    try {
      backend.wait();
    } catch (const on_host::Error& error) {
      EXPECT_NE(std::string(error.what()).find("which sends"), std::string::npos) << error.what();
      ++reported;
    }
    control.barrier();
    return 0;
  });
  EXPECT_EQ(reported, 2);
}

/// Rank 0 waits for its stream; the other never launches, and fails.
TEST_F(Nccl, AnAbortWakesWhoWaitsForTheStream) {
  wait_in_streams();
  std::string message;
  bool woken = false;
  const ExitCode code = code_of(
      [&] {
        run_gpus(2, [&](cuda::CudaBackend& backend, Communicator& comm) {
          Floats data(backend, comm, 64);
          const auto collective = comm.all_reduce(data.device);
          if (comm.rank() == 1) fail(ExitCode::data, "bad file");
          collective->launch();
          backend.wait();
          woken = comm.aborted();
          std::string why;
          EXPECT_EQ(code_of([&] { comm.barrier(); }, &why), ExitCode::data);
          EXPECT_EQ(why, "rank 1 failed");
          EXPECT_EQ(code_of([&] { collective->launch(); }), ExitCode::data);
          comm.barrier();
        });
      },
      &message);
  EXPECT_EQ(code, ExitCode::data);
  EXPECT_EQ(message, "bad file");
  EXPECT_TRUE(woken);
}

/// The same where what waits is a replay, which must be gone before the communicator.
TEST_F(Nccl, AnAbortWakesAReplay) {
  wait_in_streams();
  bool woken = false;
  const ExitCode code = code_of([&] {
    run_gpus(2, [&](cuda::CudaBackend& backend, Communicator& comm) {
      Floats data(backend, comm, 64);
      const auto collective = comm.all_reduce(data.device);
      collective->launch();
      const auto replay = backend.record([&] { collective->launch(); });
      replay->launch();
      backend.wait();
      comm.barrier();
      if (comm.rank() == 1) fail(ExitCode::data, "bad file");
      replay->launch();
      backend.wait();
      woken = comm.aborted();
      comm.barrier();
    });
  });
  EXPECT_EQ(code, ExitCode::data);
  EXPECT_TRUE(woken);
}

TEST_F(Nccl, AnErrorFoundLaterEndsTheWait) {
  wait_in_streams();
  std::string message;
  bool woken = false;
  const ExitCode code = code_of(
      [&] {
        run_gpus(2, [&](cuda::CudaBackend& backend, Communicator& comm) {
          Floats data(backend, comm, 64);
          const auto collective = comm.all_reduce(data.device);
          comm.barrier();
          if (comm.rank() == 1) {
            while (!comm.aborted()) std::this_thread::sleep_for(milliseconds(1));
            comm.barrier();
          }
          on_host::set_async_nccl_error(0, ncclRemoteError);
          collective->launch();
          backend.wait();
          woken = comm.aborted();
          comm.barrier();
        });
      },
      &message);
  EXPECT_EQ(code, ExitCode::peer);
  EXPECT_TRUE(woken);
  EXPECT_TRUE(message.starts_with("a collective of NCCL: remote process exited or there was a network error"))
      << message;
  EXPECT_NE(message.find("NCCL_DEBUG=INFO"), std::string::npos) << message;
}

struct Refused {
  const char* call;
  ncclResult_t result;
  ExitCode code;
};

TEST_F(Nccl, CallsThatFailAreNamed) {
  for (const Refused& refused :
       {Refused{"ncclGetUniqueId", ncclSystemError, ExitCode::peer},
        Refused{"ncclCommInitRankConfig", ncclUnhandledCudaError, ExitCode::peer},
        Refused{"ncclGroupStart", ncclRemoteError, ExitCode::peer},
        Refused{"ncclSend", ncclInternalError, ExitCode::bug}, Refused{"ncclRecv", ncclInvalidArgument, ExitCode::bug},
        Refused{"ncclGroupEnd", ncclInProgress, ExitCode::usage}}) {
    on_host::fail_next_nccl(refused.call, refused.result);
    std::string message;
    bool again = false;
    EXPECT_EQ(code_of(
                  [&] {
                    run_gpus(1, [&](cuda::CudaBackend& backend, Communicator& comm) {
                      Floats data(backend, comm, 8);
                      const auto collective = comm.all_reduce(data.device);
                      std::string first;
                      code_of([&] { collective->launch(); }, &first);
                      try {
                        comm.barrier();
                      } catch (const Error& error) {
                        again = error.what() == first;
                        throw;
                      }
                    });
                  },
                  &message),
              refused.code)
        << refused.call;
    EXPECT_TRUE(message.starts_with(std::string(refused.call) + ": ")) << message;
    EXPECT_NE(message.find(std::string("injected into ") + refused.call), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(again,
              std::string(refused.call) != "ncclGetUniqueId" && std::string(refused.call) != "ncclCommInitRankConfig");
  }
  run_gpus(1, [](cuda::CudaBackend& backend, Communicator& comm) {  // no group was left open
    Floats data(backend, comm, 2);
    data.upload({1.5f, -2.f});
    comm.all_reduce(data.device)->launch();
    EXPECT_TRUE(same_bits(data.download(), std::vector{1.5f, -2.f}));
    comm.finish();
  });
}

TEST_F(Nccl, TwoRanksOnOneGpuAreRefused) {
  std::string message;
  EXPECT_EQ(code_of(
                [] {
                  run_ranks(2, [](Communicator& control) {
                    cuda::CudaBackend backend({.device = 0});
                    make_nccl(backend, control, {});
                    return 0;
                  });
                },
                &message),
            ExitCode::usage);
  EXPECT_NE(message.find("Duplicate GPU"), std::string::npos) << message;
  EXPECT_NE(message.find("communication.share_device"), std::string::npos) << message;
}

TEST_F(Nccl, OldLibrariesAndOtherBackendsAreRefused) {
  on_host::nccl_options().version = 21703;
  std::string message;
  const auto connect = [] { run_gpus(1, [](cuda::CudaBackend&, Communicator&) {}); };
  EXPECT_EQ(code_of(connect, &message), ExitCode::usage);
  EXPECT_EQ(message,
            "NCCL 2.17.3 in the stand-in is too old, 2.18.0 or later is needed: give the folder of a newer one by "
            "--cuda-path");
  on_host::nccl_options().version = 2804;
  code_of(connect, &message);
  EXPECT_TRUE(message.starts_with("NCCL 2.8.4 ")) << message;
  on_host::nccl_options().version = 22809;
  on_host::fail_next_nccl("ncclGetVersion", ncclSystemError);
  EXPECT_EQ(code_of(connect, &message), ExitCode::usage);
  EXPECT_TRUE(message.starts_with("ncclGetVersion: unhandled system error")) << message;
  const auto cpu = make_cpu_backend();
  const auto solo = make_solo();
  EXPECT_EQ(code_of([&] { make_nccl(*cpu, *solo, {}); }), ExitCode::bug);
}

TEST_F(Nccl, ARecordingThatOutlivesTheCommunicatorIsFound) {
  on_host::nccl_options().patience = milliseconds(50);
  const auto solo = make_solo();
  cuda::CudaBackend backend({});
  std::unique_ptr<Replay> replay;
  {
    const auto comm = make_nccl(backend, *solo, {});
    Floats data(backend, *comm, 8);
    const auto collective = comm->all_reduce(data.device);
    collective->launch();
    replay = backend.record([&] { collective->launch(); });
  }
  EXPECT_EQ(on_host::nccl_complaints().size(), 1u);
}

}  // namespace
}  // namespace ct
