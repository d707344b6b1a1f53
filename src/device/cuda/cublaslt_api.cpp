#include "device/cuda/cublaslt_api.h"

#include "base/error.h"
#include "device/cuda/library_names.h"
#include "device/cuda/nvrtc.h"

namespace ct::cuda {
CublasLt::CublasLt(const LibraryPlaces& places) : library("cuBLASLt", cublaslt_files(), places) {
#define CT_FIND(name, function) library.find(#function, name);
  CT_CUBLASLT_FUNCTIONS(CT_FIND)
#undef CT_FIND
  open_nvrtc_for(get_version() / 10000, places);  // it compiles some of its kernels
}

std::string CublasLt::description() const {
  const size_t version = get_version();
  return str("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

void CublasLt::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const auto throw_it = [&] [[noreturn]] (ExitCode code, const char* remedy) {
    fail(code, call, ": ", get_status_string(status), " (", description(), " in ", library.path(), ")", remedy);
  };
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      throw_it(ExitCode::memory, ": end other programs on the GPU, or compute fewer images at a time");
    case CUBLAS_STATUS_NOT_INITIALIZED:  // also: its CUDA runtime does not suit the driver
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      throw_it(ExitCode::usage, ": give the folder of a version for this GPU and driver by --cuda-path");
    default:
      throw_it(ExitCode::bug, ": run the same command again, which continues from the last checkpoint");
  }
}

}  // namespace ct::cuda
