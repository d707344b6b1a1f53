// What `doctor` says of GPUs.
#include <fmt/format.h>

#include <fstream>

#include "base/error.h"
#include "device/cuda.h"
#include "device/cuda/check.h"
#include "device/cuda/device.h"
#include "device/cuda/gpu_here.h"
#include "device/cuda/library.h"
#include "device/cuda/library_names.h"
#include "device/cuda/nvrtc.h"

namespace ct::cuda {
namespace {

std::string gigabytes(size_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9); }

/// "570.124.06", as the kernel module says; empty: it does not.
std::string module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return "";
}

DeviceFact driver(int serves) {
  if (serves == 0) return {"NVIDIA driver", gpu_here() ? "none" : driver_problem(), gpu_here() ? driver_problem() : ""};
  const std::string module = module_version();
  return {"NVIDIA driver", str(module, module.empty() ? "" : ", ", "serves CUDA ", version_text(serves)),
          driver_problem()};
}

DeviceFact runtime() {
  int version = 0;
  CT_CUDA(cudaRuntimeGetVersion(&version));
  return {"CUDA runtime", str(version_text(version), ", a part of this program"), ""};
}

DeviceFact gpu(int number) {
  const std::string what = str("GPU ", number);
  try {
    const Device device = find_device(number);
    CT_CUDA(cudaSetDevice(number));
    size_t available = 0, total = 0;
    CT_CUDA(cudaMemGetInfo(&available, &total));
    return {what,
            str(device.name, " (sm_", device.capability, "), ", gigabytes(available), " free of ", gigabytes(total),
                ", ", device.uuid),
            available < total / 10 ? "little memory is free: end other programs on it, or choose another GPU by "
                                     "CUDA_VISIBLE_DEVICES"
                                   : ""};
  } catch (const Error& e) {
    return {what, "cannot be used", e.what()};
  }
}

/// Digits of a version number in hundreds: 91002 is 9.10.2.
std::string hundreds(size_t version) { return str(version / 10000, ".", version / 100 % 100, ".", version % 100); }

struct Wanted {
  std::string name;
  std::vector<std::string> files;
  size_t (*version)(const Library& library);
  size_t oldest;
};

/// `needed`: a GPU waits for it.
DeviceFact library(const Wanted& wanted, const LibraryPlaces& places, bool needed) {
  try {
    const Library found(wanted.name, wanted.files, places);
    const size_t version = wanted.version(found);
    if (version < wanted.oldest)
      fail(ExitCode::usage, wanted.name, " ", hundreds(version), " in ", found.path(), " is too old: install ",
           hundreds(wanted.oldest), " or later, and name its folder by --cuda-path");
    return {wanted.name, str(hundreds(version), " in ", found.path()), ""};
  } catch (const Error& e) {
    if (!needed) return {wanted.name, e.what(), ""};
    return {wanted.name, "cannot be used", e.what()};
  }
}

/// NVRTC as cuBLASLt needs it, of the CUDA that the cuBLASLt found belongs to.
DeviceFact nvrtc(const LibraryPlaces& places, bool needed) {
  size_t major = CUDART_VERSION / 1000;
  try {
    major = Library("cuBLASLt", cublaslt_files(), places).function<size_t()>("cublasLtGetVersion")() / 10000;
  } catch (const Error&) {  // which has its own line
  }
  try {
    const Nvrtc found(major, places);
    found.try_out();
    return {"NVRTC", found.description(), ""};
  } catch (const Error& e) {
    if (!needed) return {"NVRTC", e.what(), ""};
    return {"NVRTC", "cannot be used", str("cuBLASLt cannot compile kernels at run time: ", e.what())};
  }
}

std::vector<Wanted> libraries() {
  return {{"cuDNN",
           {kCudnnFile},
           [](const Library& library) { return library.function<size_t()>("cudnnGetVersion")(); },
           kOldestCudnn},
          {"cuBLASLt", cublaslt_files(),
           [](const Library& library) { return library.function<size_t()>("cublasLtGetVersion")(); }, 0},
          {"NCCL",
           {kNcclFile},
           [](const Library& library) {
             int version = 0;
             const int status = library.function<int(int*)>("ncclGetVersion")(&version);
             if (status != 0) fail(ExitCode::usage, "ncclGetVersion in ", library.path(), " gives error ", status);
             return static_cast<size_t>(version);
           },
           kOldestNccl}};
}

}  // namespace
}  // namespace ct::cuda

namespace ct {

std::vector<DeviceFact> cuda_facts(const CudaOptions& options) {
  const cuda::LibraryPlaces places{options.library_path};
  cuda::require_libraries_in(places.first);  // a wrong --cuda-path is one mistake, not one of each library
  int serves = 0, count = 0;
  cudaDriverGetVersion(&serves);
  std::vector<DeviceFact> facts{cuda::driver(serves), cuda::runtime()};
  if (serves > 0 && cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();  // driver() has told
  for (int number = 0; number < count; ++number) facts.push_back(cuda::gpu(number));
  for (const cuda::Wanted& wanted : cuda::libraries()) facts.push_back(cuda::library(wanted, places, count > 0));
  facts.push_back(cuda::nvrtc(places, count > 0));
  return facts;
}

}  // namespace ct
