#include "device/cuda/check.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"

namespace ct::cuda {
namespace {

// What a step computed is in doubt after a failure on the device, and every later call fails likewise: only a new
// process can go on.
constexpr const char* kResume = ": run the same command again, which goes on from the last checkpoint";
constexpr const char* kDevices = ": look at nvidia-smi and CUDA_VISIBLE_DEVICES, or compute with --device cpu";
constexpr const char* kDriver = ": install an NVIDIA driver that is new enough, or compute with --device cpu";
constexpr const char* kBusy =
    ": the GPU may be another process's alone, or not be up: look at nvidia-smi, or compute with --device cpu";

/// By name, for not every toolkit knows every one of them. The others are bugs, without a remedy.
struct Meaning {
  std::string_view error;
  ExitCode code;
  const char* remedy;
};
constexpr Meaning kMeanings[] = {
    {"cudaErrorMemoryAllocation", ExitCode::memory, ": use a smaller micro-batch, or free the GPU of other processes"},
    {"cudaErrorNoDevice", ExitCode::usage, kDevices},
    {"cudaErrorInvalidDevice", ExitCode::usage, kDevices},
    {"cudaErrorInsufficientDriver", ExitCode::usage, kDriver},
    {"cudaErrorSystemDriverMismatch", ExitCode::usage, kDriver},
    {"cudaErrorCompatNotSupportedOnDevice", ExitCode::usage, kDriver},
    {"cudaErrorUnsupportedPtxVersion", ExitCode::usage, kDriver},
    {"cudaErrorCallRequiresNewerDriver", ExitCode::usage, kDriver},
    {"cudaErrorStubLibrary", ExitCode::usage, kDriver},
    {"cudaErrorNoKernelImageForDevice", ExitCode::usage,
     ": this program has no kernels for such a GPU: use another, or compute with --device cpu"},
    {"cudaErrorDevicesUnavailable", ExitCode::usage, kBusy},
    {"cudaErrorSystemNotReady", ExitCode::usage, kBusy},
    {"cudaErrorInitializationError", ExitCode::usage, kBusy},
    {"cudaErrorECCUncorrectable", ExitCode::peer, kResume},
    {"cudaErrorNvlinkUncorrectable", ExitCode::peer, kResume},
    {"cudaErrorContained", ExitCode::peer, kResume},
    {"cudaErrorIllegalAddress", ExitCode::bug, kResume},
    {"cudaErrorMisalignedAddress", ExitCode::bug, kResume},
    {"cudaErrorInvalidAddressSpace", ExitCode::bug, kResume},
    {"cudaErrorIllegalInstruction", ExitCode::bug, kResume},
    {"cudaErrorInvalidPc", ExitCode::bug, kResume},
    {"cudaErrorHardwareStackError", ExitCode::bug, kResume},
    {"cudaErrorAssert", ExitCode::bug, kResume},
    {"cudaErrorTensorMemoryLeak", ExitCode::bug, kResume},
    {"cudaErrorLaunchFailure", ExitCode::bug, kResume},
    {"cudaErrorLaunchTimeout", ExitCode::bug, kResume},
    {"cudaErrorExternalDevice", ExitCode::bug, kResume},
    {"cudaErrorUnknown", ExitCode::bug, kResume},
};

std::string device() {
  int number = 0;
  return cudaGetDevice(&number) == cudaSuccess ? str("GPU ", number) : "the GPU";
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // told here, so not once more at the next launch
  const std::string_view name = cudaGetErrorName(status);
  const auto* found = std::ranges::find(kMeanings, name, &Meaning::error);
  const Meaning meaning = found != std::end(kMeanings) ? *found : Meaning{name, ExitCode::bug, ""};
  fail(meaning.code, meaning.code == ExitCode::peer ? device() + " is lost: " : "", call, ": ",
       cudaGetErrorString(status), " (", name, "), at or before this call", meaning.remedy);
}

}  // namespace ct::cuda
