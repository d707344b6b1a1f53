#include "device/cuda/recording.h"

#include <algorithm>
#include <limits>

#include "device/cuda/check.h"
#include "device/cuda/handle.h"
#include "device/cuda/stream.h"

namespace ct::cuda {
namespace {

using Graph = Handle<cudaGraph_t, cudaGraphDestroy>;
using CudaEvent = Handle<cudaEvent_t, cudaEventDestroy>;

Graph capture(cudaStream_t stream, const std::function<void()>& body) {
  CT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    const Graph dropped(graph);
    (void)cudaGetLastError();  // of a capture that is no more
    throw;
  }
  CT_CUDA(cudaStreamEndCapture(stream, &graph));
  return Graph(graph);
}

class GraphReplay final : public Replay {
 public:
  GraphReplay(const Graph& graph, cudaStream_t stream) : stream_(stream) {
    cudaGraphExec_t exec = nullptr;
    CT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    exec_ = Handle<cudaGraphExec_t, cudaGraphExecDestroy>(exec);
    CT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes_));
    CT_CUDA(cudaGraphUpload(exec_, stream_));
  }
  void launch() override { CT_CUDA(cudaGraphLaunch(exec_, stream_)); }
  size_t nodes() const override { return nodes_; }

 private:
  cudaStream_t stream_;
  size_t nodes_ = 0;
  Handle<cudaGraphExec_t, cudaGraphExecDestroy> exec_;
};

}  // namespace

std::unique_ptr<Replay> record(cudaStream_t stream, const std::function<void()>& body) {
  return std::make_unique<GraphReplay>(capture(stream, body), stream);
}

double milliseconds(cudaStream_t stream, const std::function<void()>& launch) {
  constexpr int kRounds = 5, kLaunches = 10;
  launch();
  CT_CUDA(cudaStreamSynchronize(stream));
  const auto replay = record(stream, [&] {
    for (int i = 0; i < kLaunches; ++i) launch();
  });
  replay->launch();  // the first one is the device's to get ready for
  const CudaEvent begin = make_cuda_event(cudaEventDefault), end = make_cuda_event(cudaEventDefault);
  float least = std::numeric_limits<float>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    CT_CUDA(cudaEventRecord(begin, stream));
    replay->launch();
    CT_CUDA(cudaEventRecord(end, stream));
    CT_CUDA(cudaEventSynchronize(end));
    float time = 0;
    CT_CUDA(cudaEventElapsedTime(&time, begin, end));
    least = std::min(least, time);
  }
  return least / kLaunches;
}

double time_of_candidate(cudaStream_t stream, const std::function<void()>& launch) {
  try {
    return milliseconds(stream, launch);
  } catch (const Error&) {
    CT_CUDA(cudaStreamSynchronize(stream));  // tells of a device that is lost
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace ct::cuda
