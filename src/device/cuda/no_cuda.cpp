#include "base/error.h"
#include "device/cuda.h"
#include "device/cuda/gpu_here.h"
#include "device/cuda/library.h"
#include "device/peaks.h"

namespace ct {

CudaBuild cuda_build() { return {}; }
std::string cuda_problem(int) {
  return "this program was built without CUDA; tools/quickstart.sh --gpu builds it with CUDA";
}
bool cuda_expected() { return cuda::gpu_here(); }
int cuda_device_count() { return 0; }
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&) {
  fail(ExitCode::usage, "device: cuda: ", cuda_problem(), ", or use --device cpu");
}
std::vector<DeviceFact> cuda_facts(const CudaOptions& options) {
  cuda::require_libraries_in(options.library_path);
  return {{"GPUs", "built without CUDA", cuda_expected() ? "this machine has an NVIDIA GPU: " + cuda_problem() : ""}};
}
DevicePeaks measure_cuda_peaks(Backend&, DType) { fail(ExitCode::bug, "no GPU to measure: ", cuda_problem()); }

}  // namespace ct
