// A GPU as a backend: all work of a rank runs in one stream, apart from uploads (uploads.h).
#pragma once

#include <map>
#include <optional>

#include "device/cuda.h"
#include "device/cuda/convolution.h"
#include "device/cuda/device.h"
#include "device/cuda/matmul.h"
#include "device/cuda/offload.h"
#include "device/cuda/stream.h"

namespace ct::cuda {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options);

  std::string description() const override;
  std::string identity() const override { return device_.uuid; }
  std::string problem_with(DType) const override { return ""; }
  void enter_thread() override;
  Memory allocate(size_t bytes) override;
  std::optional<Room> room() const override;
  bool is_host() const override { return false; }
  Memory allocate_host(size_t bytes) override;
  Memory pin(std::span<std::byte> memory) override;
  void copy(void* to, const void* from, size_t bytes) override;
  std::function<void()> ring_copies(const std::vector<RingCopy>& copies) override;
  std::unique_ptr<Uploads> make_uploads(std::byte* to, size_t bytes) override;
  void clear(void* at, size_t bytes) override;
  void wait() override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Instant> make_instant() override;
  std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values) override;
  MergedKernel merge(std::span<const ComputeOp* const> ops, const std::vector<Value>& values,
                     std::span<const int> readers) override;
  std::unique_ptr<Replay> record(const std::function<void()>& body) override;

  const Device& device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  /// For kernels whose last block does more (kernels/tickets.h): all of them share these, as one runs after the
  /// other in stream().
  unsigned* tickets();
  /// The GPU's copy of a table that kernels read.
  template <class T>
  Memory upload(const std::vector<T>& table) {
    Memory memory = allocate(std::max<size_t>(table.size() * sizeof(T), 1));
    write(memory, table.data(), table.size() * sizeof(T));
    return memory;
  }
  /// Plans by the libraries, which are opened when an operation first needs them; small networks need none.
  std::shared_ptr<Convolution> plan(ConvolutionPass pass, const ConvolutionShape& shape);
  std::shared_ptr<Matmul> plan(LinearPass pass, const LinearShape& shape);

 private:
  LibraryOptions library_options() const {
    return {.stream = stream_, .places = {options_.library_path}, .autotune = options_.autotune, .tf32 = options_.tf32};
  }
  Convolutions& convolutions();
  Matmuls& matmuls();
  void write(const Memory& to, const void* from, size_t bytes);
  template <class Library, class Pass, class Shape, class Prepared>
  std::shared_ptr<Prepared> prepare_by_plan(Library& library, Pass pass, const Shape& shape, std::string& plan,
                                            std::shared_ptr<Prepared>& prepared);

  CudaOptions options_;
  Device device_;
  Stream stream_;
  Memory tickets_;
  std::unique_ptr<Convolutions> convolutions_;
  std::unique_ptr<Matmuls> matmuls_;
  std::unique_ptr<Offload> offload_;
  // Prepared by plans; keys are those of the plans.
  std::map<std::string, std::shared_ptr<Convolution>> prepared_convolutions_;
  std::map<std::string, std::shared_ptr<Matmul>> prepared_matmuls_;
};

}  // namespace ct::cuda
