#include "device/cuda/device.h"

#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "device/backend.h"
#include "device/cuda/check.h"

namespace ct::cuda {
namespace {

std::string visible() {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  return list == nullptr ? "" : str(" (CUDA_VISIBLE_DEVICES is ", in_quotes(list), ")");
}

}  // namespace

std::string version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

std::string driver_problem() {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0)
    return "no NVIDIA driver is installed: libcuda.so.1 was not found in LD_LIBRARY_PATH nor in the loader's own "
           "places";
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();  // forgotten: it is answered here
  if (status == cudaErrorInsufficientDriver)
    return str("the NVIDIA driver is too old: it serves CUDA ", version_text(driver), ", this program needs ",
               version_text(runtime), "; update the driver");
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    return str("the NVIDIA driver (CUDA ", version_text(driver), ") shows no GPU", visible());
  if (status != cudaSuccess)
    return str("the NVIDIA driver (CUDA ", version_text(driver), ") does not answer: ", cudaGetErrorString(status));
  return "";
}

Device find_device(int number) {
  int count = 0;
  CT_CUDA(cudaGetDeviceCount(&count));
  if (number < 0 || number >= count)
    fail(ExitCode::usage, "there is no GPU number ", number, ": ", count, count == 1 ? " is" : " are", " visible",
         visible());
  cudaDeviceProp properties;
  CT_CUDA(cudaGetDeviceProperties(&properties, number));
  Device device{.number = number,
                .name = properties.name,
                .uuid = {},
                .capability = properties.major * 10 + properties.minor,
                .bytes = properties.totalGlobalMem};
  for (char byte : properties.uuid.bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    device.uuid += kDigits[static_cast<unsigned char>(byte) >> 4];
    device.uuid += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  if (device.capability < kLeastCapability)
    fail(ExitCode::usage, "GPU ", number, ", ", device.name, " (sm_", device.capability,
         "), is too old: sm_80 (Ampere, 2020) or later is needed");
  return device;
}

}  // namespace ct::cuda

namespace ct {

std::string cuda_problem() {
  if (std::string problem = cuda::driver_problem(); !problem.empty()) return problem;
  try {
    cuda::find_device(0);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

int cuda_device_count() {
  int count = 0;
  return cuda_problem().empty() && cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace ct
