#include "device/cuda/device.h"

#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "device/cuda.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_here.h"

namespace ct::cuda {
namespace {

std::string visible() {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  return list == nullptr ? "" : str(" (CUDA_VISIBLE_DEVICES is ", in_quotes(list), ")");
}

/// "GPU-" and the bytes in hexadecimal, 8-4-4-4-12.
std::string uuid_text(const cudaUUID_t& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

std::string version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

std::string driver_problem() {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0)
    return "no NVIDIA driver is installed: libcuda.so.1 was not found in LD_LIBRARY_PATH nor in the loader's default "
           "folders; install the NVIDIA driver";
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();  // forgotten: it is answered here
  if (status == cudaErrorInsufficientDriver)
    return str("the NVIDIA driver is too old: it supports CUDA ", version_text(driver), ", this program needs ",
               version_text(runtime), "; update the driver");
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    return str("the NVIDIA driver (CUDA ", version_text(driver), ") shows no GPU", visible(),
               std::getenv("CUDA_VISIBLE_DEVICES") == nullptr ? "; check nvidia-smi"
                                                              : "; have it name GPUs that nvidia-smi -L lists");
  if (status != cudaSuccess)
    return str("the NVIDIA driver (CUDA ", version_text(driver), ") does not answer: ", cudaGetErrorString(status),
               " (", cudaGetErrorName(status), ")", setup_remedy(status));
  return "";
}

Device find_device(int number) {
  int count = 0;
  CT_CUDA(cudaGetDeviceCount(&count));
  if (number < 0 || number >= count)
    fail(ExitCode::usage, "there is no GPU number ", number, ": ", count, count == 1 ? " is" : " are", " visible",
         visible(), "; choose one of those");
  cudaDeviceProp properties;
  CT_CUDA(cudaGetDeviceProperties(&properties, number));
  const Device device{.number = number,
                      .name = properties.name,
                      .uuid = uuid_text(properties.uuid),
                      .capability = properties.major * 10 + properties.minor,
                      .bytes = properties.totalGlobalMem};
  if (device.capability < kLeastCapability)
    fail(ExitCode::usage, "GPU ", number, ", ", device.name, " (sm_", device.capability,
         "), is too old: sm_80 (Ampere, 2020) or later is needed; choose others by CUDA_VISIBLE_DEVICES");
  return device;
}

}  // namespace ct::cuda

namespace ct {

CudaBuild cuda_build() { return {cuda::version_text(CUDART_VERSION), cuda::kernel_architectures()}; }

std::string cuda_problem(int device) {
  if (std::string problem = cuda::driver_problem(); !problem.empty()) return problem;
  try {
    cuda::find_device(device);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool cuda_expected() {
  int driver = 0, count = 0;
  cudaDriverGetVersion(&driver);
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();  // forgotten: cuda_problem() tells it
  if (driver == 0) return cuda::gpu_here();
  return status != cudaErrorNoDevice && !(status == cudaSuccess && count == 0);
}

int cuda_device_count() {
  int count = 0;
  return cuda::driver_problem().empty() && cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace ct
