// Recordings of launches, and the times that autotuning takes from them.
#include "device/cuda/recording.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_backend.h"
#include "runtime.h"

namespace ct::cuda {
namespace {

class Recording : public testing::Test {
 protected:
  void SetUp() override { on_host::restart(); }
  void TearDown() override {
    EXPECT_EQ(on_host::allocated_bytes(), 0u);
    EXPECT_EQ(on_host::live_handles(), 0u);
    on_host::restart();
  }
};

/// The host launches a row of them once, the device runs it again and again: so the host's time is not in it.
TEST_F(Recording, TimesAreOfReplays) {
  const CudaBackend backend({});
  int launched = 0;
  std::atomic<int> run{0};
  const double time = milliseconds(backend.stream(), [&] {
    ++launched;
    CT_CUDA(on_host::launch_on_device(backend.stream(), [&] { ++run; }));
  });
  EXPECT_TRUE(std::isfinite(time) && time >= 0) << time;
  const int row = launched - 1;  // after the first, which warms up
  EXPECT_GE(row, 5);
  EXPECT_EQ((run - 1) % row, 0);
  EXPECT_GE((run - 1) / row, 3);
}

TEST_F(Recording, InstantsAreOfTheDevice) {
  CudaBackend backend({});
  const auto work = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  const auto first = backend.make_instant(), second = backend.make_instant(), third = backend.make_instant();
  first->set();
  CT_CUDA(on_host::launch_on_device(backend.stream(), work));
  second->set();
  third->set();
  work();  // the host's time is not the device's
  EXPECT_GE(third->seconds_since(*first), 0.005);
  EXPECT_GE(second->seconds_since(*first), 0.005);
  EXPECT_LT(third->seconds_since(*second), third->seconds_since(*first));
}

TEST_F(Recording, AWayThatDoesNotWorkIsTheSlowest) {
  const CudaBackend backend({});
  const auto launch = [&] { CT_CUDA(on_host::launch_on_device(backend.stream(), [] {})); };
  for (const char* call : {"launch_on_device", "launch_on_device@capture", "cudaGraphInstantiate", "cudaGraphLaunch"}) {
    on_host::fail_next(call, cudaErrorNotSupported);
    EXPECT_EQ(time_of_candidate(backend.stream(), launch), INFINITY) << call;
    EXPECT_TRUE(std::isfinite(time_of_candidate(backend.stream(), launch))) << call;
  }
  on_host::fail_next("cudaGraphLaunch", cudaErrorECCUncorrectable);
  EXPECT_THROW(time_of_candidate(backend.stream(), launch), Error);
  on_host::restart();
}

/// The stream is as it was, and the same launches go there one by one.
TEST_F(Recording, WhatFailsLeavesNothingBehind) {
  CudaBackend backend({});
  int run = 0;
  const auto launch = [&] { CT_CUDA(on_host::launch_on_device(backend.stream(), [&] { ++run; })); };
  for (const char* call : {"launch_on_device", "cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaGraphUpload"}) {
    on_host::fail_next(call, cudaErrorNotSupported);
    EXPECT_THROW(backend.record(launch), Error) << call;
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << call;
    run = 0;
    launch();
    backend.wait();
    EXPECT_EQ(run, 1) << call;
  }
}

}  // namespace
}  // namespace ct::cuda
