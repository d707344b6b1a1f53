// What the files of the CUDA runtime's stand-in share. One mutex guards all of it and is never held while work runs.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtime.h"

namespace on_host {

using Work = std::function<void()>;
using Lock = std::unique_lock<std::mutex>;

struct Item {
  std::string what;
  Work run;
  bool meets = false;  // waits for work that others launch
  Work kernel = {};    // of a kernel's launch: what `run` calls
  bool early = false;  // a kernel that overlaps with the one before it, if that is a kernel too
};
struct Node {
  Item item;
  std::vector<size_t> after;  // earlier nodes
};

struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  cudaStream_t origin;
  std::vector<std::shared_ptr<CUstream_st>> streams;
  std::vector<Node> nodes;
  bool active = true, invalid = false;
};

/// One recording of an event.
struct Record {
  std::weak_ptr<CUstream_st> stream;
  std::atomic<bool> done = false;
  std::chrono::steady_clock::time_point time;
};

struct Allocation {
  cudaMemoryType type;
  bool registered;  // the program's own memory
  size_t bytes;
  int device;
  unsigned char* pages = nullptr;  // without the guard pages
  size_t page_bytes = 0;
};

struct Device {
  cudaDeviceProp properties;
  size_t used = 0;
  cudaError_t lost = cudaSuccess;
  std::shared_ptr<CUstream_st> legacy;  // the null stream
};

template <class T>
class Handles {
 public:
  T* add(std::shared_ptr<T> object) { return (all_[object.get()] = object).get(); }
  std::shared_ptr<T> find(T* handle) const {
    const auto at = all_.find(handle);
    return at == all_.end() ? nullptr : at->second;
  }
  bool remove(T* handle) { return all_.erase(handle) > 0; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  size_t size() const { return all_.size(); }

 private:
  std::unordered_map<T*, std::shared_ptr<T>> all_;
};

struct Failure {
  std::string call;
  cudaError_t error;
  int nth;
};

struct State {
  std::mutex mutex;
  std::vector<Device> devices;  // the visible ones
  cudaError_t no_device = cudaSuccess;
  int driver = 0;
  Protection protection = Protection::none;
  bool computes = true;                         // false: kernels do nothing, and memory is not filled
  std::map<uintptr_t, Allocation> allocations;  // by address
  Handles<CUstream_st> streams;
  Handles<CUevent_st> events;
  Handles<CUgraph_st> graphs;
  Handles<CUgraphExec_st> executables;
  std::vector<std::shared_ptr<Capture>> captures;  // the active ones
  std::vector<Failure> failures;
  std::set<std::tuple<int, const void*, std::string>> loaded;  // by device: kernels, and those of libraries by name
  size_t meeting = 0;                                          // items that meet others, launched and not done
  std::vector<std::string> complaints;
};
State& state();

// ---- devices.cpp: every call begins and ends here

enum class Needs { device, nothing };
/// What the call returns instead of doing anything.
std::optional<cudaError_t> begin_call(const char* name, Needs needs);
cudaError_t end_call(cudaError_t error);
template <class Body>
cudaError_t call(const char* name, Body body, Needs needs = Needs::device) {
  const std::optional<cudaError_t> instead = begin_call(name, needs);
  return end_call(instead ? *instead : body());
}
int current_device();
/// With the lock held. Of what may wait for devices to come to rest, and keep other threads out meanwhile.
void complain_beside_a_meeting(const std::string& what);
/// While one exists, this thread runs what a stream called: it may not call CUDA.
struct InWork {
  InWork();
  ~InWork();
};

// ---- memory.cpp

/// While one exists, this thread may touch device memory.
class Access {
 public:
  Access();
  ~Access();
};
/// With the lock held. Throws Error where a kernel's arguments have an address of memory that is neither a device's nor
/// page-locked.
void check_arguments(const std::vector<uint64_t>& words, const std::string& kernel);
void release_all_memory();
void choose_protection();

// ---- streams.cpp

/// Puts the work into the stream, or into its capture; runs it if the stream is not to wait. Unlocks.
cudaError_t push(Lock& lock, const std::shared_ptr<CUstream_st>& stream, Item item);
cudaError_t push(cudaStream_t stream, std::string what, Work run);
/// Two kernels' launches as one, of which the second starts first.
Item overlapped(const Item& first, const Item& second);
/// Null where there is no such stream.
std::shared_ptr<CUstream_st> find_stream(cudaStream_t stream);
void drain_device(int device);

// ---- graphs.cpp; all are called with the lock held

cudaError_t invalidate(Capture& capture, cudaError_t error);
/// cudaErrorStreamCaptureUnsupported where a capture forbids this thread calls that are not its stream's.
cudaError_t forbidden_in_capture();
cudaError_t record(CUstream_st& stream, Item item);
void end(const std::shared_ptr<Capture>& capture);

}  // namespace on_host

struct CUstream_st {
  int device;
  bool blocking, legacy;
  std::mutex running = {};               // held while an item runs; taken before the state's mutex
  std::deque<on_host::Item> queue = {};  // the first one may be running
  int queries = 0;
  std::shared_ptr<on_host::Capture> capture = {};
  std::vector<size_t> last = {};  // the nodes that the next one follows
};
struct CUevent_st {
  int device;
  unsigned flags;
  int queries = 0;
  std::shared_ptr<on_host::Record> record = {};
  std::shared_ptr<on_host::Capture> capture = {};
  std::vector<size_t> nodes = {};  // of the capture
};
struct CUgraph_st {
  std::vector<on_host::Node> nodes;
};
struct CUgraphExec_st {
  std::vector<on_host::Item> items;  // as they run
};
