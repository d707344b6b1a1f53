#include "device/cuda/uploads.h"

namespace ct::cuda {
namespace {

class SideStream final : public Uploads {
 public:
  SideStream(Backend& backend, cudaStream_t work, std::byte* to, size_t bytes)
      : work_(work), to_(to), bytes_(bytes), side_(make_stream()) {
    for (Block& block : blocks_) block.memory = backend.allocate(bytes);
    backend.wait();  // allocate() fills with zeros in the other stream
  }
  ~SideStream() override { cudaStreamSynchronize(side_); }

  void bring(const std::byte* from) override {
    Block& block = blocks_[next_];
    next_ = 1 - next_;
    CT_CUDA(cudaStreamWaitEvent(side_, block.taken));
    CT_CUDA(cudaMemcpyAsync(block.memory.data(), from, bytes_, cudaMemcpyHostToDevice, side_));
    CT_CUDA(cudaEventRecord(block.there, side_));
    CT_CUDA(cudaStreamWaitEvent(work_, block.there));
    CT_CUDA(cudaMemcpyAsync(to_, block.memory.data(), bytes_, cudaMemcpyDeviceToDevice, work_));
    CT_CUDA(cudaEventRecord(block.taken, work_));
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<StreamEvent>(side_); }

 private:
  struct Block {
    Memory memory;
    CudaEvent there = make_cuda_event(cudaEventDisableTiming), taken = make_cuda_event(cudaEventDisableTiming);
  };
  cudaStream_t work_;
  std::byte* to_;
  size_t bytes_;
  Block blocks_[2];
  int next_ = 0;
  Stream side_;
};

}  // namespace

std::unique_ptr<Uploads> make_uploads(Backend& backend, cudaStream_t work, std::byte* to, size_t bytes) {
  return std::make_unique<SideStream>(backend, work, to, bytes);
}

}  // namespace ct::cuda
