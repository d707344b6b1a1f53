#include "device/cuda/check.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/host.h"

namespace ct::cuda {
namespace {

// What a step computed is in doubt after a failure on the device, and every later call fails likewise: only a new
// process can go on.
constexpr const char* kResume = ": run the same command again, which continues from the last checkpoint";
constexpr const char* kLost =
    ": run the same command again, which continues from the last checkpoint; if the GPU is lost again, check dmesg and "
    "exclude the GPU by CUDA_VISIBLE_DEVICES";
// A bug of a kernel most often, but a GPU that fails may say it too.
constexpr const char* kKernel =
    ": run the same command again, which continues from the last checkpoint; if dmesg has lines with Xid, the GPU may "
    "be "
    "broken";
constexpr const char* kDevices = ": check nvidia-smi and CUDA_VISIBLE_DEVICES";
constexpr const char* kDriver = ": install an NVIDIA driver that is new enough";
constexpr const char* kBusy =
    ": another process may use the GPU exclusively, or the GPU may not be up: check nvidia-smi";
constexpr const char* kMps =
    ": restart CUDA's MPS daemon (nvidia-cuda-mps-control), or wait until other programs have left it";

/// What an error means, by name, for not every toolkit knows every one of them. The others are bugs, without a remedy.
struct Meaning {
  std::string_view error;
  ExitCode code;
  const char* remedy;
};
constexpr Meaning kMeanings[] = {
    {"cudaErrorMemoryAllocation", ExitCode::memory,
     ": end other programs on the GPU, or compute fewer images at a time"},
    {"cudaErrorNoDevice", ExitCode::usage, kDevices},
    {"cudaErrorInvalidDevice", ExitCode::usage, kDevices},
    {"cudaErrorInsufficientDriver", ExitCode::usage, kDriver},
    {"cudaErrorSystemDriverMismatch", ExitCode::usage,
     ": the driver's libraries are not of its kernel module's version: restart the machine after an update"},
    {"cudaErrorCompatNotSupportedOnDevice", ExitCode::usage,
     ": remove CUDA's compatibility libraries (cuda-compat) from LD_LIBRARY_PATH"},
    {"cudaErrorUnsupportedPtxVersion", ExitCode::usage, kDriver},
    {"cudaErrorCallRequiresNewerDriver", ExitCode::usage, kDriver},
    {"cudaErrorStubLibrary", ExitCode::usage, kDriver},
    {"cudaErrorNoKernelImageForDevice", ExitCode::usage,
     ": this program has no kernels for such a GPU: use another, or compute with --device cpu"},
    {"cudaErrorDevicesUnavailable", ExitCode::usage, kBusy},
    {"cudaErrorInitializationError", ExitCode::usage, kBusy},
    {"cudaErrorSystemNotReady", ExitCode::usage,
     ": start the driver's services (nvidia-fabricmanager where there are NVSwitches), or check nvidia-smi"},
    {"cudaErrorMpsConnectionFailed", ExitCode::usage, kMps},
    {"cudaErrorMpsServerNotReady", ExitCode::usage, kMps},
    {"cudaErrorMpsMaxClientsReached", ExitCode::usage, kMps},
    {"cudaErrorMpsMaxConnectionsReached", ExitCode::usage, kMps},
    {"cudaErrorMpsRpcFailure", ExitCode::peer, kLost},
    {"cudaErrorMpsClientTerminated", ExitCode::peer, kLost},
    {"cudaErrorECCUncorrectable", ExitCode::peer, kLost},
    {"cudaErrorNvlinkUncorrectable", ExitCode::peer, kLost},
    {"cudaErrorContained", ExitCode::peer, kLost},
    {"cudaErrorDeviceUninitialized", ExitCode::peer, kLost},
    {"cudaErrorContextIsDestroyed", ExitCode::peer, kLost},
    {"cudaErrorUnknown", ExitCode::peer, kLost},  // of a GPU that fell off its bus
    {"cudaErrorIllegalAddress", ExitCode::bug, kResume},
    {"cudaErrorMisalignedAddress", ExitCode::bug, kResume},
    {"cudaErrorInvalidAddressSpace", ExitCode::bug, kResume},
    {"cudaErrorIllegalInstruction", ExitCode::bug, kResume},
    {"cudaErrorInvalidPc", ExitCode::bug, kResume},
    {"cudaErrorHardwareStackError", ExitCode::bug, kKernel},
    {"cudaErrorAssert", ExitCode::bug, kResume},
    {"cudaErrorTensorMemoryLeak", ExitCode::bug, kResume},
    {"cudaErrorLaunchFailure", ExitCode::bug, kKernel},
    {"cudaErrorLaunchTimeout", ExitCode::usage,
     ": the GPU serves a display, which ends kernels that take long: use another GPU"},
    {"cudaErrorExternalDevice", ExitCode::bug, kResume},
};

Meaning meaning_of(cudaError_t status) {
  const std::string_view name = cudaGetErrorName(status);
  const auto* found = std::ranges::find(kMeanings, name, &Meaning::error);
  return found != std::end(kMeanings) ? *found : Meaning{name, ExitCode::bug, ""};
}

std::string device() {
  int number = -1;  // cudaGetDevice() may fail too, for what went wrong before
  (void)cudaGetDevice(&number);
  return (number >= 0 ? str("GPU ", number) : "the GPU") + " of host " + host_name();
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // told here, so not once more at the next launch
  const Meaning meaning = meaning_of(status);
  fail(meaning.code, meaning.code == ExitCode::peer ? device() + " is lost: " : "", call, ": ",
       cudaGetErrorString(status), " (", meaning.error, "), at or before this call", meaning.remedy);
}

std::string setup_remedy(cudaError_t status) {
  const Meaning meaning = meaning_of(status);
  return meaning.code == ExitCode::usage ? meaning.remedy : ": check nvidia-smi and dmesg";
}

}  // namespace ct::cuda
