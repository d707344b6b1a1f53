// What becomes of the errors of CUDA's calls: exit codes, and one line that says what to do.
#include "device/cuda/check.h"

#include <gtest/gtest.h>

#include "base/host.h"
#include "device/cuda.h"
#include "runtime.h"

namespace ct {
namespace {

Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::done, "no error"};
}

struct Case {
  cudaError_t error;
  ExitCode code;
  const char* remedy;
};
constexpr const char* kLost = "continues from the last checkpoint; if the GPU is lost again, check dmesg";
constexpr Case kCases[] = {
    {cudaErrorMemoryAllocation, ExitCode::memory, "end other programs on the GPU, or compute fewer images at a time"},
    {cudaErrorInsufficientDriver, ExitCode::usage, "install an NVIDIA driver"},
    {cudaErrorDevicesUnavailable, ExitCode::usage, "another process may use the GPU exclusively"},
    {cudaErrorSystemNotReady, ExitCode::usage, "start the driver's services"},
    {cudaErrorSystemDriverMismatch, ExitCode::usage, "restart the machine"},
    {cudaErrorMpsConnectionFailed, ExitCode::usage, "MPS daemon"},
    {cudaErrorLaunchTimeout, ExitCode::usage, "serves a display"},
    {cudaErrorECCUncorrectable, ExitCode::peer, kLost},
    {cudaErrorNvlinkUncorrectable, ExitCode::peer, kLost},
    {cudaErrorContained, ExitCode::peer, kLost},
    {cudaErrorUnknown, ExitCode::peer, kLost},
    {cudaErrorIllegalAddress, ExitCode::bug, "continues from the last checkpoint"},
    {cudaErrorLaunchFailure, ExitCode::bug, "if dmesg has lines with Xid"},
    {cudaErrorHardwareStackError, ExitCode::bug, "if dmesg has lines with Xid"},
    {cudaErrorInvalidValue, ExitCode::bug, "(cudaErrorInvalidValue), at or before this call"},
};

TEST(CudaCheck, ErrorsHaveTheirExitCodeAndARemedy) {
  on_host::restart();
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  for (const Case& c : kCases) {
    const Error error = error_of([&] { cuda::check(c.error, "cudaCall"); });
    const std::string said = error.what(), device = "GPU 1 of host " + host_name() + " is lost: ";
    EXPECT_EQ(error.code(), c.code) << said;
    EXPECT_NE(said.find(c.remedy), std::string::npos) << said;
    EXPECT_NE(said.find(str("(", cudaGetErrorName(c.error), ")")), std::string::npos) << said;
    EXPECT_EQ(said.starts_with(device), c.code == ExitCode::peer) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  on_host::restart();
}

TEST(CudaCheck, LostDevicesAreNamedAndStayLost) {
  for (const cudaError_t error : {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorContained}) {
    on_host::restart();
    const auto backend = make_cuda_backend({.device = 1});
    on_host::fail_next("cudaMemcpyAsync", error);
    std::byte bytes[4];
    const Memory memory = backend->allocate(4);
    for (int i = 0; i < 2; ++i) {
      const Error found = error_of([&] { backend->copy(memory.data(), bytes, 4); });
      EXPECT_EQ(found.code(), ExitCode::peer) << found.what();
      EXPECT_TRUE(std::string(found.what()).starts_with("GPU 1 of host ")) << found.what();
    }
    EXPECT_EQ(error_of([&] { backend->wait(); }).code(), ExitCode::peer);
  }
  on_host::restart();
}

TEST(CudaCheck, OutOfMemoryHasTheCallersRemedy) {
  on_host::restart();
  const auto advice = [](const char* call, const std::string& less) {
    const auto backend = make_cuda_backend({.memory_advice = less});
    on_host::fail_next(call, cudaErrorMemoryAllocation);
    const Error error = error_of([&] {
      if (std::string(call) == "cudaMalloc")
        backend->allocate(1000);
      else
        backend->allocate_host(1000);
    });
    EXPECT_EQ(error.code(), ExitCode::memory);
    const std::string said = error.what();
    EXPECT_NE(said.find("1000 bytes"), std::string::npos) << said;
    return said.substr(said.find("; "));
  };
  EXPECT_EQ(advice("cudaMalloc", "use less"), "; use less, or end other programs on the GPU");
  EXPECT_EQ(advice("cudaMalloc", ""), "; end other programs on the GPU");
  EXPECT_EQ(advice("cudaHostAlloc", "use less"), "; use less, or raise the limit (ulimit -l, the job's memory)");
  EXPECT_EQ(advice("cudaHostAlloc", ""), "; raise the limit (ulimit -l, the job's memory)");
}

TEST(CudaCheck, AGpuIsExpectedWhereADriverShowsOne) {
  struct Machine {
    const char *driver, *devices;
    bool expected, usable;
  };
  for (const Machine& m : {Machine{"13000", "1", true, true}, Machine{"12080", "1", true, false},
                           Machine{"13000", "0", false, false}, Machine{"0", "1", false, false}}) {
    setenv("ON_HOST_DRIVER", m.driver, 1);
    setenv("ON_HOST_DEVICES", m.devices, 1);
    on_host::restart();
    EXPECT_EQ(cuda_expected(), m.expected) << m.driver << " " << m.devices;
    EXPECT_EQ(cuda_problem().empty(), m.usable) << cuda_problem();
  }
  unsetenv("ON_HOST_DRIVER");
  unsetenv("ON_HOST_DEVICES");
  on_host::restart();
}

}  // namespace
}  // namespace ct
