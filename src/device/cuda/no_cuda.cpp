#include "base/error.h"
#include "device/backend.h"
#include "device/peaks.h"

namespace ct {

std::string cuda_problem() { return "this program was built without CUDA"; }
int cuda_device_count() { return 0; }
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&) {
  fail(ExitCode::usage, "device: cuda: ", cuda_problem(), "; build it with the preset cuda, or use --device cpu");
}
std::vector<DeviceFact> cuda_facts(const CudaOptions&) { return {{"GPUs", "built without CUDA", ""}}; }
DevicePeaks measure_cuda_peaks(Backend&, DType) { fail(ExitCode::bug, "no GPU to measure: ", cuda_problem()); }

}  // namespace ct
