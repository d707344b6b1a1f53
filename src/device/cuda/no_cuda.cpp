#include "base/error.h"
#include "device/cuda.h"
#include "device/cuda/library.h"
#include "device/peaks.h"

namespace ct {

std::string cuda_build() { return "none (built without CUDA)"; }
std::string cuda_problem(int) { return "this program was built without CUDA"; }
bool cuda_expected() { return false; }
int cuda_device_count() { return 0; }
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&) {
  fail(ExitCode::usage, "device: cuda: ", cuda_problem(), "; build it with the preset cuda, or use --device cpu");
}
std::vector<DeviceFact> cuda_facts(const CudaOptions& options) {
  cuda::require_libraries_in(options.library_path);
  return {{"GPUs", "built without CUDA", ""}};
}
DevicePeaks measure_cuda_peaks(Backend&, DType) { fail(ExitCode::bug, "no GPU to measure: ", cuda_problem()); }

}  // namespace ct
