#include "device/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/layers.h"
#include "device/cuda/recording.h"
#include "device/cuda/ring_copy.h"
#include "device/cuda/uploads.h"
#include "device/cuda/widened_convolution.h"
#include "kernels/copy.h"
#include "kernels/tickets.h"

namespace ct::cuda {
namespace {

class StreamInstant final : public Instant {
 public:
  explicit StreamInstant(cudaStream_t stream) : stream_(stream), event_(make_cuda_event(cudaEventDefault)) {}
  void set() override { CT_CUDA(cudaEventRecord(event_, stream_)); }
  double seconds_since(Instant& earlier) override {
    CT_CUDA(cudaEventSynchronize(event_));
    float milliseconds = 0;
    CT_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<StreamInstant&>(earlier).event_, event_));
    return double{milliseconds} / 1000;
  }

 private:
  cudaStream_t stream_;
  CudaEvent event_;
};

Device enter(int number) {
  if (const std::string problem = driver_problem(); !problem.empty())
    fail(ExitCode::usage, "device: cuda: ", problem, ", or use --device cpu");
  try {
    Device device = find_device(number);
    CT_CUDA(cudaSetDevice(number));
    return device;
  } catch (const Error& e) {
    fail(e.code(), "device: cuda: ", e.what(), ", or use --device cpu");
  }
}

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options)
    : options_(options), device_(enter(options.device)), stream_(make_stream()) {}

std::string CudaBackend::description() const {
  int driver = 0, runtime = 0;
  CT_CUDA(cudaDriverGetVersion(&driver));
  CT_CUDA(cudaRuntimeGetVersion(&runtime));
  std::string text = str("cuda, ", device_.name, " (sm_", device_.capability, "), CUDA ", version_text(runtime),
                         ", driver ", version_text(driver));
  if (convolutions_) text += ", " + convolutions_->description();
  if (matmuls_) text += ", " + matmuls_->description();
  return text;
}

void CudaBackend::enter_thread() { CT_CUDA(cudaSetDevice(device_.number)); }

Memory CudaBackend::allocate(size_t bytes) {
  void* at = nullptr;
  const cudaError_t status = cudaMalloc(&at, std::max<size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // forgotten: it is told here
    const Room left = *room();
    fail(ExitCode::memory, "out of memory on ", left.device, ": ", bytes, " bytes more are needed, ", left.available,
         " of ", left.total, " are free; ", options_.memory_advice, options_.memory_advice.empty() ? "" : ", or ",
         "end other programs on the GPU");
  }
  check(status, "cudaMalloc");
  Memory memory(static_cast<std::byte*>(at), bytes, [](std::byte* p) { cudaFree(p); });
  clear(at, bytes);
  return memory;
}

std::optional<Backend::Room> CudaBackend::room() const {
  size_t available = 0, total = 0;
  CT_CUDA(cudaMemGetInfo(&available, &total));
  return Room{str("GPU ", device_.number, " (", device_.name, ")"), static_cast<int64_t>(available),
              static_cast<int64_t>(total)};
}

Memory CudaBackend::allocate_host(size_t bytes) {
  void* at = nullptr;
  const cudaError_t status = cudaHostAlloc(&at, std::max<size_t>(bytes, 1), cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail(ExitCode::memory, "out of memory: ", bytes, " bytes of page-locked host memory are needed; ",
         options_.memory_advice, options_.memory_advice.empty() ? "" : ", or ",
         "raise the limit (ulimit -l, the job's memory)");
  }
  check(status, "cudaHostAlloc");
  std::memset(at, 0, bytes);
  return {static_cast<std::byte*>(at), bytes, [](std::byte* p) { cudaFreeHost(p); }};
}

/// Memory that cannot be pinned (shared files on some systems) is copied all the same, only slower.
Memory CudaBackend::pin(std::span<std::byte> memory) {
  if (memory.empty() || cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  return {memory.data(), memory.size(), [](std::byte* p) { cudaHostUnregister(p); }};
}

void CudaBackend::copy(void* to, const void* from, size_t bytes) {
  CT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
}

/// A copy engine takes about as long to start as a kernel takes for so many bytes, and it cannot change its address
/// between the replays of a recording.
std::function<void()> CudaBackend::ring_copies(const std::vector<RingCopy>& copies) {
  if (copies.empty()) return {};
  std::vector<kernels::RingCopyArgs> all;
  for (const RingCopy& copy : copies) all.push_back(ring_args(copy));
  const auto launch = [all, stream = stream()] {
    for (size_t first = 0; first < all.size(); first += kernels::kMostRings)
      CT_CUDA(kernels::ring_copies(std::span(all).subspan(first, std::min(all.size() - first, kernels::kMostRings)),
                                   stream));
  };
  launch();  // the device loads the kernel now: see BoundProgram's constructor
  for (const RingCopy& copy : copies) clear(copy.turn, sizeof *copy.turn);
  wait();
  return launch;
}

std::unique_ptr<Uploads> CudaBackend::make_uploads(std::byte* to, size_t bytes) {
  return cuda::make_uploads(*this, stream_, to, bytes);
}

/// Allocated as zeros; each kernel leaves zeros.
unsigned* CudaBackend::tickets() {
  if (tickets_.data() == nullptr) tickets_ = allocate(kernels::kTickets * sizeof(unsigned));
  return reinterpret_cast<unsigned*>(tickets_.data());
}

void CudaBackend::write(const Memory& to, const void* from, size_t bytes) {
  copy(to.data(), from, bytes);
  wait();
}

void CudaBackend::clear(void* at, size_t bytes) { CT_CUDA(cudaMemsetAsync(at, 0, bytes, stream_)); }

void CudaBackend::wait() { CT_CUDA(cudaStreamSynchronize(stream_)); }

std::unique_ptr<Event> CudaBackend::make_event() { return std::make_unique<StreamEvent>(stream_); }

std::unique_ptr<Instant> CudaBackend::make_instant() { return std::make_unique<StreamInstant>(stream_); }

std::unique_ptr<Kernel> CudaBackend::prepare(const ComputeOp& op, const std::vector<Value>& values) {
  if (Offload::wants(op, values)) {
    if (!offload_) offload_ = std::make_unique<Offload>(*this);
    return offload_->prepare(op, values);
  }
  const Context in(*this, values, str(name_of(op), " ", values[static_cast<size_t>(writes(op).front())].name));
  return std::visit([&](const auto& kind) { return cuda::prepare(kind, in); }, op);
}

std::unique_ptr<Replay> CudaBackend::record(const std::function<void()>& body) { return cuda::record(stream_, body); }

Convolutions& CudaBackend::convolutions() {
  if (!convolutions_) convolutions_ = make_convolutions(library_options());
  return *convolutions_;
}

Matmuls& CudaBackend::matmuls() {
  if (!matmuls_) matmuls_ = make_matmuls(library_options());
  return *matmuls_;
}

/// What was prepared already, or else by `plan`, if there is one that still works, or by a new one, which is kept:
/// networks repeat their shapes, programs are planned before they are bound, and a library takes its time.
template <class Library, class Pass, class Shape, class Prepared>
std::shared_ptr<Prepared> CudaBackend::prepare_by_plan(Library& library, Pass pass, const Shape& shape,
                                                       std::string& plan, std::shared_ptr<Prepared>& prepared) {
  if (prepared && prepared->plan() == plan) return prepared;
  try {
    if (!plan.empty()) return prepared = library.prepare(pass, shape, plan);
  } catch (const Error& e) {
    if (e.code() != ExitCode::usage) throw;
    plans.miss(e.what());
  }
  prepared = library.prepare(pass, shape);
  plan = prepared->plan();
  return prepared;
}

std::shared_ptr<Convolution> CudaBackend::plan(ConvolutionPass pass, const ConvolutionShape& s) {
  if (const auto wide = widened_shape(pass, s)) return by_widening(plan(pass, *wide), pass, s, stream_);
  constexpr const char* kPasses[] = {"forward", "grad_input", "grad_weights"};
  const std::string key =
      str(device_.name, ": convolution ", kPasses[static_cast<size_t>(pass)], " ", name_of(s.dtype), " ", s.n, "x",
          s.in_h, "x", s.in_w, "x", s.in_channels, s.planar ? " planar" : "", " ", s.out_h, "x", s.out_w, "x",
          s.out_channels, " kernel ", s.kernel, " stride ", s.stride, " pad ", s.pad);
  return prepare_by_plan(convolutions(), pass, s, plans[key], prepared_convolutions_[key]);
}

std::shared_ptr<Matmul> CudaBackend::plan(LinearPass pass, const LinearShape& s) {
  constexpr const char* kPasses[] = {"forward", "grad_input", "grad_weights"};
  const std::string key =
      str(device_.name, ": linear ", kPasses[static_cast<size_t>(pass)], s.relu ? " relu " : " ", name_of(s.dtype), " ",
          name_of(s.y_dtype), " ", s.rows, "x", s.in, "x", s.out, s.bias ? "" : " without bias");
  return prepare_by_plan(matmuls(), pass, s, plans[key], prepared_matmuls_[key]);
}

}  // namespace ct::cuda

namespace ct {

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

}  // namespace ct
