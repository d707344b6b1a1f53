// Capture of streams into graphs, and their replay.
#include <algorithm>
#include <set>

#include "state.h"

namespace on_host {
namespace {

/// The nodes as they are replayed: as recorded, or always the latest one that may run.
std::vector<Item> in_order(const std::vector<Node>& nodes, RuntimeOptions::Streams streams) {
  const bool latest = streams == RuntimeOptions::Streams::lazy;
  std::vector<Item> items;
  std::vector<size_t> missing(nodes.size());
  std::vector<std::vector<size_t>> before(nodes.size());
  std::set<size_t> ready;
  size_t previous = nodes.size();
  for (size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (size_t j : nodes[i].after) before[j].push_back(i);
    if (missing[i] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    const size_t next = latest ? *ready.rbegin() : *ready.begin();
    ready.erase(next);
    const Node& node = nodes[next];
    if (node.item.early && node.after == std::vector{previous} && nodes[previous].item.kernel)
      items.back() = overlapped(items.back(), node.item);
    else
      items.push_back(node.item);
    previous = next;
    for (size_t i : before[next])
      if (--missing[i] == 0) ready.insert(i);
  }
  return items;
}

/// Does every node lead to one of `last`?
bool is_joined(const std::vector<Node>& nodes, const std::vector<size_t>& last) {
  std::vector<bool> joined(nodes.size());
  for (size_t i : last) joined[i] = true;
  for (size_t i = nodes.size(); i-- > 0;)
    if (joined[i])
      for (size_t j : nodes[i].after) joined[j] = true;
  return std::find(joined.begin(), joined.end(), false) == joined.end();
}

}  // namespace

cudaError_t invalidate(Capture& capture, cudaError_t error) {
  capture.invalid = true;
  return error;
}

cudaError_t forbidden_in_capture() {
  cudaError_t error = cudaSuccess;
  for (const auto& capture : state().captures)
    if (capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread == std::this_thread::get_id()))
      error = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  return error;
}

cudaError_t record(CUstream_st& stream, Item item) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(item), stream.last});
  stream.last = {capture.nodes.size() - 1};
  return cudaSuccess;
}

void end(const std::shared_ptr<Capture>& capture) {
  const auto keep = capture;  // which may be the stream's own pointer
  for (const auto& stream : keep->streams) {
    stream->capture = nullptr;
    stream->last.clear();
  }
  keep->active = false;
  keep->streams.clear();
  auto& all = state().captures;
  all.erase(std::remove(all.begin(), all.end(), keep), all.end());
}

}  // namespace on_host

using namespace on_host;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture) return cudaErrorIllegalState;
    stream->capture = std::make_shared<Capture>();
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->origin = handle;
    stream->capture->streams = {stream};
    state().captures.push_back(stream->capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* pGraph) {
  return call("cudaStreamEndCapture", [&] {
    *pGraph = nullptr;
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const auto capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != handle) return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
      return invalidate(*capture, cudaErrorStreamCaptureWrongThread);
    const bool joined = is_joined(capture->nodes, stream->last);
    end(capture);
    if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *pGraph = state().graphs.add(std::make_shared<CUgraph_st>(CUgraph_st{std::move(capture->nodes)}));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* pCaptureStatus) {
  return call("cudaStreamIsCapturing", [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    *pCaptureStatus = !stream->capture           ? cudaStreamCaptureStatusNone
                      : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                                 : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t handle, unsigned long long) {
  return call("cudaGraphInstantiate", [&] {
    const Lock lock(state().mutex);
    const auto graph = state().graphs.find(handle);
    if (!graph) return cudaErrorInvalidValue;
    complain_beside_a_meeting("cudaGraphInstantiate");
    *pGraphExec = state().executables.add(
        std::make_shared<CUgraphExec_st>(CUgraphExec_st{in_order(graph->nodes, runtime_options().streams)}));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return call("cudaGraphUpload", [&] {
    const Lock lock(state().mutex);
    if (!state().executables.find(graphExec)) return cudaErrorInvalidValue;
    return find_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream_handle) {
  return call("cudaGraphLaunch", [&] {
    Lock lock(state().mutex);
    const auto graph = state().executables.find(graphExec);
    const auto stream = find_stream(stream_handle);
    if (!graph) return cudaErrorInvalidValue;
    if (!stream) return cudaErrorInvalidResourceHandle;
    const bool meets = std::ranges::any_of(graph->items, &Item::meets);
    const auto run = [graph] {
      for (const Item& item : graph->items) try {
          item.run();
        } catch (const Error& error) {
          throw Error(item.what + ": " + error.what());
        }
    };
    return push(lock, stream, {.what = "a graph", .run = run, .meets = meets});
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* numNodes) {
  return call("cudaGraphGetNodes", [&] {
    const Lock lock(state().mutex);
    const auto graph = state().graphs.find(handle);
    if (!graph) return cudaErrorInvalidValue;
    if (nodes) return cudaErrorNotSupported;  // there is nothing to be done with nodes but to count them
    *numNodes = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return call("cudaGraphExecDestroy", [&] {
    const Lock lock(state().mutex);
    return state().executables.remove(graphExec) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&] {
    const Lock lock(state().mutex);
    return state().graphs.remove(graph) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
