// Streams and events. Only step() runs what streams hold.
#include <cxxabi.h>

#include <cstdlib>

#include "state.h"

namespace on_host {
namespace {

using Stream = std::shared_ptr<CUstream_st>;

/// Runs the oldest item of a stream that `running` is of; false: there is none.
bool step(CUstream_st& stream, const std::unique_lock<std::mutex>& running) {
  if (!running.owns_lock()) return false;
  Item item;
  {
    const Lock lock(state().mutex);
    if (stream.queue.empty()) return false;
    item = stream.queue.front();
  }
  struct Pop {
    CUstream_st& stream;
    ~Pop() {
      const Lock lock(state().mutex);
      state().meeting -= stream.queue.front().meets;
      stream.queue.pop_front();
    }
  } pop{stream};
  try {
    item.run();
  } catch (const Error& error) {
    if (stream.legacy) throw;
    throw Error(item.what + ": " + error.what());
  }
  return true;
}

/// An item that another thread runs is waited for.
bool step(CUstream_st& stream) { return step(stream, std::unique_lock(stream.running)); }

void drain(CUstream_st& stream) {
  while (step(stream)) continue;
}

enum class Which { all, blocking };
void drain_streams(int device, Which which) {
  std::vector<Stream> streams;
  {
    const Lock lock(state().mutex);
    for (const auto& [handle, stream] : state().streams)
      if (stream->device == device && (which == Which::all || stream->blocking)) streams.push_back(stream);
    if (static_cast<size_t>(device) < state().devices.size())
      streams.push_back(state().devices[static_cast<size_t>(device)].legacy);
  }
  for (const Stream& stream : streams) drain(*stream);
}

void await(const Record& record) {
  while (!record.done) {
    const Stream stream = record.stream.lock();
    if (!stream || !step(*stream)) return;
  }
}

bool blocking_stream_captures(int device) {
  for (const auto& capture : state().captures)
    for (const Stream& stream : capture->streams)
      if (stream->device == device && stream->blocking) return true;
  return false;
}

/// Queries in a row find the work not ready until the patience is over.
bool patience_ends(int& queries) {
  if (queries++ < runtime_options().queries) return false;
  queries = 0;
  return true;
}

std::mutex kernel_mutex;  // a kernel's blockDim, and what run() keeps, are the process's

/// With the lock held. Kernels are loaded into a device when it first runs them.
void load(int device, const void* function, const std::string& name) {
  if (state().loaded.emplace(device, function, name).second) complain_beside_a_meeting("the first launch of " + name);
}

/// The launch of a kernel.
Item item_of(std::string what, Work kernel, bool early) {
  if (!state().computes) kernel = [] {};
  const auto run = [kernel] {
    const std::lock_guard one(kernel_mutex);
    const Access access;
    kernel();
  };
  return {.what = std::move(what), .run = run, .kernel = std::move(kernel), .early = early};
}

cudaError_t launch_kernel(cudaStream_t handle, cudaError_t configuration, KernelLaunch kernel) {
  return call("cudaLaunchKernelEx", [&] {
    if (configuration != cudaSuccess) return configuration;
    Lock lock(state().mutex);
    const Stream stream = find_stream(handle);
    if (!stream || stream->device != current_device()) return cudaErrorInvalidResourceHandle;
    char* readable = abi::__cxa_demangle(kernel.type, nullptr, nullptr, nullptr);
    const std::string what = std::string("kernel ") + (readable ? readable : kernel.type);
    std::free(readable);
    load(stream->device, kernel.function, what);
    if (!runtime_options().own_memory) check_arguments(kernel.words, what);
    return push(lock, stream, item_of(what, std::move(kernel.run), kernel.early));
  });
}

[[maybe_unused]] const bool installed = (launch_hook = launch_kernel, choose_protection(), true);

/// body(the event) with the lock held, for calls that ask for an event's state.
template <class Body>
cudaError_t with_recorded(const char* name, cudaEvent_t handle, Body body) {
  return call(name, [&] {
    Lock lock(state().mutex);
    const auto event = state().events.find(handle);
    if (!event) return cudaErrorInvalidResourceHandle;
    if (event->capture) {
      if (event->capture->active) invalidate(*event->capture, cudaSuccess);
      return cudaErrorCapturedEvent;
    }
    if (const cudaError_t error = forbidden_in_capture(); error != cudaSuccess) return error;
    return body(lock, *event);
  });
}

/// body(the stream) with the lock held, for calls that wait for a stream.
template <class Body>
cudaError_t with_idle(const char* name, cudaStream_t handle, Body body) {
  return call(name, [&] {
    Lock lock(state().mutex);
    const Stream stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    if (const cudaError_t error = forbidden_in_capture(); error != cudaSuccess) return error;
    return body(lock, *stream);
  });
}

}  // namespace

Stream find_stream(cudaStream_t handle) {
  if (handle) return state().streams.find(handle);
  return state().devices[static_cast<size_t>(current_device())].legacy;
}

Item overlapped(const Item& first, const Item& second) {
  const auto both = [first = first.kernel, second = second.kernel] {
    run_overlapped(
        [&first] {
          const dim3 block = blockDim, grid = gridDim;  // the second's
          first();
          blockDim = block, gridDim = grid;
        },
        second);
  };
  return item_of(second.what + ", begun before the end of " + first.what, both, first.early);
}

void drain_device(int device) { drain_streams(device, Which::all); }

void let_streams_go_on() {
  std::vector<Stream> streams;
  {
    const Lock lock(state().mutex);
    for (const auto& [handle, stream] : state().streams) streams.push_back(stream);
  }
  for (const Stream& stream : streams)
    while (step(*stream, std::unique_lock(stream->running, std::try_to_lock))) continue;
}

cudaError_t push(Lock& lock, const Stream& stream, Item item) {
  if (stream->capture) return record(*stream, std::move(item));
  if (stream->legacy && blocking_stream_captures(stream->device)) {
    for (const auto& capture : state().captures) invalidate(*capture, cudaSuccess);
    return cudaErrorStreamCaptureImplicit;
  }
  state().meeting += item.meets;
  // The queue's first item may be running.
  if (item.early && stream->queue.size() > 1 && stream->queue.back().kernel)
    stream->queue.back() = overlapped(stream->queue.back(), item);
  else
    stream->queue.push_back(std::move(item));
  stream->queries = 0;
  const bool now = stream->legacy || runtime_options().streams == RuntimeOptions::Streams::eager ||
                   stream->queue.size() > runtime_options().longest_queue;
  lock.unlock();
  if (stream->legacy) drain_streams(stream->device, Which::blocking);
  if (now) drain(*stream);
  return cudaSuccess;
}

cudaError_t push(cudaStream_t handle, std::string what, Work run) {
  Lock lock(state().mutex);
  const Stream stream = find_stream(handle);
  return stream ? push(lock, stream, {std::move(what), std::move(run)}) : cudaErrorInvalidResourceHandle;
}

cudaError_t launch_on_device(cudaStream_t handle, std::function<void()> body, const std::string& name, Meets meets) {
  return call("launch_on_device", [&]() -> cudaError_t {
    Lock lock(state().mutex);
    const Stream stream = find_stream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const std::string what = name.empty() ? "launch_on_device" : name;
    if (meets == Meets::nobody) load(stream->device, nullptr, what);
    const auto run = [body = std::move(body), meets] {
      const Access access;
      const InWork in_work;
      if (meets == Meets::others || state().computes) body();
    };
    return push(lock, stream, {.what = what, .run = run, .meets = meets == Meets::others});
  });
}

}  // namespace on_host

using namespace on_host;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&] {
    if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    const Lock lock(state().mutex);
    *pStream = state().streams.add(
        Stream(new CUstream_st{current_device(), /*blocking=*/flags != cudaStreamNonBlocking, /*legacy=*/false}));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreate(cudaStream_t* pStream) { return cudaStreamCreateWithFlags(pStream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call("cudaStreamDestroy", [&] {
    Lock lock(state().mutex);
    const Stream stream = handle ? state().streams.find(handle) : nullptr;
    if (!stream) return cudaErrorInvalidResourceHandle;
    state().streams.remove(handle);
    if (stream->capture && stream->capture->origin == handle)
      end(stream->capture);
    else if (stream->capture)
      invalidate(*stream->capture, cudaSuccess);
    lock.unlock();
    drain(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_idle("cudaStreamSynchronize", handle, [](Lock& lock, CUstream_st& stream) {
    lock.unlock();
    if (stream.legacy) drain_streams(stream.device, Which::blocking);
    drain(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_idle("cudaStreamQuery", handle, [](Lock& lock, CUstream_st& stream) {
    if (stream.queue.empty()) return cudaSuccess;
    if (!patience_ends(stream.queries)) return cudaErrorNotReady;
    lock.unlock();
    drain(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&] {
    {
      const Lock lock(state().mutex);
      cudaError_t error = forbidden_in_capture();
      for (const auto& capture : state().captures)
        for (const Stream& stream : capture->streams)
          if (stream->device == current_device()) error = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
      if (error != cudaSuccess) return error;
    }
    drain_device(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return call("cudaLaunchHostFunc", [&] {
    return push(stream, "a host function", [=] {
      const InWork in_work;
      fn(userData);
    });
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&] {
    const Lock lock(state().mutex);
    *event = state().events.add(std::shared_ptr<CUevent_st>(new CUevent_st{current_device(), flags}));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&] {
    const Lock lock(state().mutex);
    return state().events.remove(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return call("cudaEventRecord", [&] {
    Lock lock(state().mutex);
    const auto event = state().events.find(handle);
    const Stream stream = find_stream(stream_handle);
    if (!event || !stream || event->device != stream->device) return cudaErrorInvalidResourceHandle;
    event->record = nullptr;
    event->capture = stream->capture;
    event->nodes = stream->last;
    if (stream->capture) return stream->capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    const auto record = std::make_shared<Record>();
    record->stream = stream;
    event->record = record;
    event->queries = 0;
    const auto run = [record] {
      record->time = std::chrono::steady_clock::now();
      record->done = true;
    };
    return push(lock, stream, {"cudaEventRecord", run});
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  return call("cudaStreamWaitEvent", [&] {
    if (flags != 0) return cudaErrorInvalidValue;
    Lock lock(state().mutex);
    const auto event = state().events.find(handle);
    const Stream stream = find_stream(stream_handle);
    if (!event || !stream) return cudaErrorInvalidResourceHandle;
    if (const auto& capture = event->capture) {
      if (!capture->active) return cudaErrorCapturedEvent;
      if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
      if (stream->legacy) return invalidate(*capture, cudaErrorStreamCaptureImplicit);
      if (stream->capture && stream->capture != capture) {
        invalidate(*stream->capture, cudaSuccess);
        return invalidate(*capture, cudaErrorStreamCaptureMerge);
      }
      if (!stream->capture) capture->streams.push_back(stream);
      stream->capture = capture;
      stream->last.insert(stream->last.end(), event->nodes.begin(), event->nodes.end());
      return cudaSuccess;
    }
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureIsolation);
    if (!event->record) return cudaSuccess;
    return push(lock, stream, {"cudaStreamWaitEvent", [record = event->record] { await(*record); }});
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return with_recorded("cudaEventSynchronize", handle, [](Lock& lock, CUevent_st& event) {
    const auto record = event.record;
    lock.unlock();
    if (record) await(*record);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return with_recorded("cudaEventQuery", handle, [](Lock& lock, CUevent_st& event) {
    const auto record = event.record;
    if (!record || record->done) return cudaSuccess;
    if (!patience_ends(event.queries)) return cudaErrorNotReady;
    lock.unlock();
    await(*record);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return with_recorded("cudaEventElapsedTime", start, [&](Lock&, CUevent_st& from) {
    const auto to = state().events.find(end);
    if (!to || !to->record || !from.record || ((to->flags | from.flags) & cudaEventDisableTiming))
      return cudaErrorInvalidResourceHandle;
    if (!to->record->done || !from.record->done) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(to->record->time - from.record->time).count();
    return cudaSuccess;
  });
}
