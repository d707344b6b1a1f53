// Streams and events.
#pragma once

#include "device/backend.h"
#include "device/cuda/check.h"
#include "device/cuda/handle.h"

namespace ct::cuda {

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = Handle<cudaEvent_t, cudaEventDestroy>;

inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  CT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

inline CudaEvent make_cuda_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  CT_CUDA(cudaEventCreateWithFlags(&event, flags));
  return CudaEvent(event);
}

class StreamEvent final : public Event {
 public:
  explicit StreamEvent(cudaStream_t stream) : stream_(stream), event_(make_cuda_event(cudaEventDisableTiming)) {}
  void set() override { CT_CUDA(cudaEventRecord(event_, stream_)); }
  void wait() override { CT_CUDA(cudaEventSynchronize(event_)); }

 private:
  cudaStream_t stream_;
  CudaEvent event_;
};

}  // namespace ct::cuda
