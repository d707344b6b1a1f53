#include "cuda/twins/nccl_stand_in.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "runtime.h"

namespace on_host {
namespace {

enum class Kind { send, receive, all_reduce, reduce_scatter, all_gather };
constexpr std::array kNames{"send", "receive", "all_reduce", "reduce_scatter", "all_gather"};  // by Kind

struct Operation {
  Kind kind;
  const void* in;
  void* out;
  size_t count;
  ncclDataType_t type;
  int peer;

  size_t bytes() const { return count * (type == ncclFloat32 ? 4 : 1); }
  bool is_collective() const { return kind != Kind::send && kind != Kind::receive; }
  bool same_as(const Operation& o) const { return kind == o.kind && count == o.count && type == o.type; }
  std::string text() const {
    std::ostringstream text;
    text << kNames[static_cast<size_t>(kind)] << " of " << count << (type == ncclFloat32 ? " floats" : " bytes");
    if (!is_collective()) text << (kind == Kind::send ? " to rank " : " from rank ") << peer;
    return text.str();
  }
};

/// What a sender offers until the receiver has copied it.
struct Offer {
  const void* from;
  size_t bytes;
  bool taken = false;
};

/// All ranks of a communicator.
struct Clique {
  explicit Clique(int ranks)
      : gone(static_cast<size_t>(ranks)),
        devices(gone.size()),
        current(gone.size()),
        offers(gone.size() * gone.size()) {}
  int size() const { return static_cast<int>(gone.size()); }

  std::mutex mutex;
  std::condition_variable changed;
  std::string broken;      // what ended it for all
  std::vector<char> gone;  // aborted, by rank
  std::vector<std::string> devices;
  size_t joined = 0, finalized = 0;
  // The rendezvous of a collective: how many are there, how often all have been.
  size_t arrived = 0, met = 0;
  std::vector<const Operation*> current;
  std::vector<std::deque<std::shared_ptr<Offer>>> offers;  // of sender * size + receiver
};

/// Thrown through an operation that is to leave any result.
struct Aborted {};

/// Is this the fault that ON_HOST_NCCL_FAULT plants?
bool planted(const std::string& fault) {
  const char* const wanted = std::getenv("ON_HOST_NCCL_FAULT");
  return wanted != nullptr && fault == wanted;
}
/// The last bit of the last element, of what an operation has written.
void plant_fault(const Operation& operation) {
  if (operation.bytes() >= 4 && planted(kNames[static_cast<size_t>(operation.kind)]))
    static_cast<char*>(operation.out)[operation.bytes() - 4] ^= 1;
}

}  // namespace
}  // namespace on_host

struct ncclComm {
  std::shared_ptr<on_host::Clique> clique;
  int rank;
  std::atomic<ncclResult_t> async_error{ncclSuccess};
  bool finalized = false;
  // Held by every recording: NCCL waits for their end.
  std::shared_ptr<int> recordings = std::make_shared<int>(0);
};

namespace on_host {
namespace {

struct Process {
  std::mutex mutex;
  NcclStandInOptions options;
  uint64_t ids = 0;
  std::map<uint64_t, std::shared_ptr<Clique>> cliques;  // whose ranks have not all come
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> live;
  std::map<std::string, ncclResult_t> failures;
  std::vector<std::string> complaints;
  NcclEnds ends;
  std::atomic<size_t> finished{0};
};
Process& process() {
  static Process it;
  return it;
}

/// The group that this thread has begun.
struct Group {
  int depth = 0;
  ncclResult_t status = ncclSuccess;
  std::shared_ptr<ncclComm> comm;
  cudaStream_t stream = nullptr;
  std::vector<Operation> operations;
};
Group& group() {
  thread_local Group it;
  return it;
}
std::string& last_error() {
  thread_local std::string it;
  return it;
}

ncclResult_t refuse(ncclResult_t result, const std::string& why) {
  last_error() = why;
  return result;
}

std::optional<ncclResult_t> injected(const char* call) {
  const std::lock_guard lock(process().mutex);
  const auto at = process().failures.find(call);
  if (at == process().failures.end()) return {};
  const ncclResult_t result = at->second;
  process().failures.erase(at);
  return refuse(result, std::string("injected into\n") + call);
}

std::shared_ptr<ncclComm> find(ncclComm_t comm) {
  const std::lock_guard lock(process().mutex);
  const auto at = process().live.find(comm);
  return at == process().live.end() ? nullptr : at->second;
}

/// So long a rank waits for the hosts of its peers, then their devices go on without them.
constexpr std::chrono::milliseconds kAlone{300};

std::chrono::milliseconds patience() {
  const std::lock_guard lock(process().mutex);
  return process().options.patience;
}

/// One rank's run of one group.
class Run {
 public:
  Run(ncclComm& comm, const std::vector<Operation>& operations)
      : clique_(*comm.clique), rank_(static_cast<size_t>(comm.rank)), operations_(operations), lock_(clique_.mutex) {}

  void operator()() {
    if (clique_.gone[rank_]) throw Aborted();
    std::vector<std::shared_ptr<Offer>> sent;
    for (const Operation& operation : operations_)
      if (operation.kind == Kind::send) {
        sent.push_back(std::make_shared<Offer>(Offer{operation.in, operation.bytes()}));
        offers(rank_, static_cast<size_t>(operation.peer)).push_back(sent.back());
      }
    clique_.changed.notify_all();
    for (const Operation& operation : operations_) {
      if (operation.kind == Kind::receive) receive(operation);
      if (operation.is_collective()) collective(operation);
    }
    for (const Operation& operation : operations_) {
      if (operation.kind != Kind::send) continue;
      wait(operation, [&] { return sent.front()->taken; });
      sent.erase(sent.begin());
    }
    ++process().finished;
  }

 private:
  std::deque<std::shared_ptr<Offer>>& offers(size_t from, size_t to) {
    return clique_.offers[from * clique_.gone.size() + to];
  }

  [[noreturn]] void give_up(const std::string& why) {
    if (clique_.broken.empty()) clique_.broken = why;
    clique_.changed.notify_all();
    throw Error("NCCL's stand-in: " + clique_.broken);
  }

  /// What this rank offers may be gone next.
  [[noreturn]] void leave() {
    for (size_t to = 0; to < clique_.gone.size(); ++to) offers(rank_, to).clear();
    clique_.current[rank_] = nullptr;
    throw Aborted();
  }

  template <class Done>
  void wait(const Operation& operation, Done done) {
    const auto over = [&] { return clique_.gone[rank_] || !clique_.broken.empty() || done(); };
    const auto limit = std::chrono::steady_clock::now() + patience();
    bool in_time = clique_.changed.wait_until(lock_, std::min(limit, std::chrono::steady_clock::now() + kAlone), over);
    if (!in_time && std::chrono::steady_clock::now() < limit) {
      std::thread([] {
        try {
          let_streams_go_on();
        } catch (const std::exception&) {  // it was told to the rank whose work it is, or will be
        }
      }).detach();
      in_time = clique_.changed.wait_until(lock_, limit, over);
    }
    if (clique_.gone[rank_]) leave();
    if (!clique_.broken.empty() || !in_time)
      give_up("rank " + std::to_string(rank_) + " waits in vain in " + operation.text());
  }

  void receive(const Operation& operation) {
    auto& from = offers(static_cast<size_t>(operation.peer), rank_);
    wait(operation, [&] { return !from.empty(); });
    const std::shared_ptr<Offer> offer = from.front();
    if (offer->bytes != operation.bytes())
      give_up("rank " + std::to_string(rank_) + ": " + operation.text() + ", which sends " +
              std::to_string(offer->bytes) + " bytes");
    std::memmove(operation.out, offer->from, offer->bytes);
    plant_fault(operation);
    offer->taken = true;
    from.pop_front();
    clique_.changed.notify_all();
  }

  void meet(const Operation& operation) {
    const size_t before = clique_.met;
    if (++clique_.arrived == clique_.gone.size()) {
      clique_.arrived = 0;
      ++clique_.met;
      clique_.changed.notify_all();
    }
    wait(operation, [&] { return clique_.met != before; });
  }

  void collective(const Operation& operation) {
    clique_.current[rank_] = &operation;
    meet(operation);
    for (const Operation* other : clique_.current) {
      if (other == nullptr) wait(operation, [] { return false; });
      if (!other->same_as(operation)) give_up(operation.text() + " meets " + other->text());
    }
    const std::vector<std::byte> result = result_of(operation);
    meet(operation);  // all have read before anyone writes
    if (result.empty()) return;
    std::memcpy(operation.out, result.data(), result.size());
    plant_fault(operation);
  }

  std::vector<std::byte> result_of(const Operation& operation) const {
    const size_t ranks = clique_.gone.size(), bytes = operation.bytes();
    const auto in = [&](size_t r) { return static_cast<const std::byte*>(clique_.current[r]->in); };
    std::vector<std::byte> result;
    if (operation.kind == Kind::all_gather) {
      for (size_t r = 0; r < ranks; ++r) result.insert(result.end(), in(r), in(r) + bytes);
      return result;
    }
    result.resize(bytes);
    const size_t at = operation.kind == Kind::reduce_scatter ? rank_ * operation.count : 0;
    auto* sums = reinterpret_cast<float*>(result.data());
    for (size_t i = 0; i < operation.count; ++i) {
      float sum = reinterpret_cast<const float*>(in(ranks - 1))[at + i];
      for (size_t r = ranks - 1; r-- > 0;) sum += reinterpret_cast<const float*>(in(r))[at + i];
      sums[i] = sum;
    }
    return result;
  }

  Clique& clique_;
  size_t rank_;
  const std::vector<Operation>& operations_;
  std::unique_lock<std::mutex> lock_;
};

ncclResult_t launch(Group& group) {
  if (group.operations.empty()) return ncclSuccess;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(group.stream, &capture) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "no such stream");
  std::shared_ptr<int> recording;
  if (capture == cudaStreamCaptureStatusActive) recording = group.comm->recordings;
  const auto body = [comm = group.comm, operations = std::move(group.operations), recording] {
    if (recording && planted("replay")) return;  // what was recorded does nothing
    try {
      Run{*comm, operations}();
    } catch (const Aborted&) {
    }
  };
  const Meets meets = group.comm->clique->size() > 1 ? Meets::others : Meets::nobody;
  const cudaError_t error = launch_on_device(group.stream, body, "a group of NCCL", meets);
  return error == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

ncclResult_t start_group() {
  ++group().depth;
  return ncclSuccess;
}
ncclResult_t end_group() {
  Group& it = group();
  if (it.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  if (--it.depth > 0) return ncclSuccess;
  const ncclResult_t status = it.status == ncclSuccess ? launch(it) : it.status;
  it = {};
  return status;
}

ncclResult_t add(const char* name, ncclComm_t handle, cudaStream_t stream, Operation operation) {
  const auto add_to = [&](Group& it) {
    if (const auto result = injected(name)) return *result;
    const auto comm = find(handle);
    if (!comm) return refuse(ncclInvalidArgument, std::string(name) + ": no communicator");
    if (it.comm && (it.comm != comm || it.stream != stream))
      return refuse(ncclInvalidUsage, std::string(name) + ": one communicator and one stream a group");
    if (!operation.is_collective() && (operation.peer < 0 || operation.peer >= comm->clique->size()))
      return refuse(ncclInvalidArgument, std::string(name) + ": no rank " + std::to_string(operation.peer));
    it.comm = comm;
    it.stream = stream;
    it.operations.push_back(operation);
    return ncclSuccess;
  };
  start_group();
  Group& it = group();
  const ncclResult_t result = add_to(it);
  if (it.status == ncclSuccess) it.status = result;
  const ncclResult_t end = end_group();
  return result == ncclSuccess ? end : result;
}

ncclResult_t get_version(int* version) {
  if (const auto result = injected("ncclGetVersion")) return *result;
  const std::lock_guard lock(process().mutex);
  *version = process().options.version;
  return ncclSuccess;
}

const char* get_error_string(ncclResult_t result) {
  constexpr std::array kTexts{"no error",
                              "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                              "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                              "internal error - please report this issue to the NCCL developers",
                              "invalid argument (run with NCCL_DEBUG=WARN for details)",
                              "invalid usage (run with NCCL_DEBUG=WARN for details)",
                              "remote process exited or there was a network error",
                              "NCCL operation in progress"};
  return static_cast<size_t>(result) < kTexts.size() ? kTexts[static_cast<size_t>(result)] : "unknown result code";
}

const char* get_last_error(ncclComm_t) { return last_error().c_str(); }

ncclResult_t get_unique_id(ncclUniqueId* id) {
  if (const auto result = injected("ncclGetUniqueId")) return *result;
  const std::lock_guard lock(process().mutex);
  *id = {};
  const uint64_t number = ++process().ids;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t comm_init_rank_config(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const auto result = injected("ncclCommInitRankConfig")) return *result;
  if (ranks < 1 || rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "rank out of range");
  if (config->size != sizeof *config || config->magic != 0xcafebeef)
    return refuse(ncclInvalidArgument, "a config that was not initialised");
  if (config->blocking == 0) return refuse(ncclInvalidUsage, "the stand-in has only calls that block");
  uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  int device = 0;
  cudaDeviceProp properties;
  if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "no device");

  const auto comm = std::make_shared<ncclComm>();
  comm->rank = rank;
  {
    const std::lock_guard lock(process().mutex);
    if (number == 0 || number > process().ids) return refuse(ncclInvalidArgument, "no such unique id");
    auto& clique = process().cliques[number];
    if (!clique) clique = std::make_shared<Clique>(ranks);
    if (clique->size() != ranks) return refuse(ncclInvalidArgument, "ranks do not agree how many they are");
    comm->clique = clique;
  }
  Clique& clique = *comm->clique;
  {
    std::unique_lock lock(clique.mutex);
    auto& mine = clique.devices[static_cast<size_t>(rank)];
    if (!mine.empty()) return refuse(ncclInvalidUsage, "rank " + std::to_string(rank) + " twice");
    mine.assign(properties.uuid.bytes, sizeof properties.uuid.bytes);
    ++clique.joined;
    clique.changed.notify_all();
    const auto all = clique.devices.size();
    if (!clique.changed.wait_for(lock, patience(), [&] { return clique.joined == all; }))
      return refuse(ncclSystemError, "rank " + std::to_string(rank) + " waits in vain for others to join");
    for (size_t a = 0; a < all; ++a)
      for (size_t b = a + 1; b < all; ++b)
        if (clique.devices[a] == clique.devices[b])
          return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " +
                                              std::to_string(b) + " both on one CUDA device");
  }
  const std::lock_guard lock(process().mutex);
  process().live[comm.get()] = comm;
  *handle = comm.get();
  return ncclSuccess;
}

ncclResult_t comm_get_async_error(ncclComm_t handle, ncclResult_t* error) {
  if (const auto result = injected("ncclCommGetAsyncError")) return *result;
  const auto comm = find(handle);
  if (!comm) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: no communicator");
  *error = comm->async_error;
  return ncclSuccess;
}

/// The communicator is no more.
void end(const std::shared_ptr<ncclComm>& comm, const char* call, size_t NcclEnds::*count) {
  const auto deadline = std::chrono::steady_clock::now() + patience();
  while (comm->recordings.use_count() > 1 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::lock_guard lock(process().mutex);
  if (comm->recordings.use_count() > 1)
    process().complaints.push_back(std::string(call) + " waits for graphs with its operations to be destroyed");
  process().live.erase(comm.get());
  ++(process().ends.*count);
  report(call);
}

ncclResult_t comm_abort(ncclComm_t handle) {
  const auto comm = find(handle);
  if (!comm) return refuse(ncclInvalidArgument, "ncclCommAbort: no communicator");
  {
    const std::lock_guard lock(comm->clique->mutex);
    comm->clique->gone[static_cast<size_t>(comm->rank)] = 1;
  }
  comm->clique->changed.notify_all();
  end(comm, "ncclCommAbort", &NcclEnds::aborted);
  return ncclSuccess;
}

ncclResult_t comm_finalize(ncclComm_t handle) {
  if (const auto result = injected("ncclCommFinalize")) return *result;
  const auto comm = find(handle);
  if (!comm) return refuse(ncclInvalidArgument, "ncclCommFinalize: no communicator");
  Clique& clique = *comm->clique;
  std::unique_lock lock(clique.mutex);
  if (std::exchange(comm->finalized, true)) return refuse(ncclInvalidArgument, "ncclCommFinalize: twice");
  ++clique.finalized;
  clique.changed.notify_all();
  if (!clique.changed.wait_for(lock, patience(), [&] { return clique.finalized == clique.gone.size(); }))
    return refuse(ncclSystemError, "ncclCommFinalize waits in vain for other ranks");
  return ncclSuccess;
}

ncclResult_t comm_destroy(ncclComm_t handle) {
  const auto comm = find(handle);
  if (!comm || !comm->finalized) return refuse(ncclInvalidArgument, "ncclCommDestroy: no finalized communicator");
  end(comm, "ncclCommDestroy", &NcclEnds::destroyed);
  return ncclSuccess;
}

ncclResult_t group_start() {
  if (const auto result = injected("ncclGroupStart")) return *result;
  return start_group();
}

ncclResult_t group_end() {
  if (const auto result = injected("ncclGroupEnd")) {
    group() = {};
    return *result;
  }
  return end_group();
}

ncclResult_t send(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add("ncclSend", comm, stream, {Kind::send, from, nullptr, count, type, peer});
}
ncclResult_t receive(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add("ncclRecv", comm, stream, {Kind::receive, nullptr, to, count, type, peer});
}
ncclResult_t all_reduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                        cudaStream_t stream) {
  if (type != ncclFloat32 || op != ncclSum) return refuse(ncclInvalidArgument, "only sums of floats");
  return add("ncclAllReduce", comm, stream, {Kind::all_reduce, in, out, count, type, -1});
}
ncclResult_t reduce_scatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
  if (type != ncclFloat32 || op != ncclSum) return refuse(ncclInvalidArgument, "only sums of floats");
  return add("ncclReduceScatter", comm, stream, {Kind::reduce_scatter, in, out, count, type, -1});
}
ncclResult_t all_gather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream) {
  return add("ncclAllGather", comm, stream, {Kind::all_gather, in, out, count, type, -1});
}

}  // namespace

NcclStandInOptions& nccl_options() { return process().options; }

void fail_next_nccl(const std::string& call, ncclResult_t result) {
  const std::lock_guard lock(process().mutex);
  process().failures[call] = result;
}

void set_async_nccl_error(int rank, ncclResult_t result) {
  const std::lock_guard lock(process().mutex);
  for (const auto& [handle, comm] : process().live)
    if (comm->rank == rank) comm->async_error = result;
}

size_t live_nccl_communicators() {
  const std::lock_guard lock(process().mutex);
  return process().live.size();
}

NcclEnds nccl_ends() {
  const std::lock_guard lock(process().mutex);
  return std::exchange(process().ends, {});
}

size_t finished_nccl_operations() { return process().finished; }

std::vector<std::string> nccl_complaints() {
  const std::lock_guard lock(process().mutex);
  return std::exchange(process().complaints, {});
}

}  // namespace on_host

namespace ct {

/// Under mpirun there is none.
NcclApi open_nccl(const cuda::LibraryPlaces&) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr)
    fail(ExitCode::usage, "the stand-in for NCCL connects threads, not processes");
  return {.path = "the stand-in",
          .get_version = on_host::get_version,
          .get_error_string = on_host::get_error_string,
          .get_last_error = on_host::get_last_error,
          .get_unique_id = on_host::get_unique_id,
          .comm_init_rank_config = on_host::comm_init_rank_config,
          .comm_get_async_error = on_host::comm_get_async_error,
          .comm_finalize = on_host::comm_finalize,
          .comm_destroy = on_host::comm_destroy,
          .comm_abort = on_host::comm_abort,
          .group_start = on_host::group_start,
          .group_end = on_host::group_end,
          .send = on_host::send,
          .recv = on_host::receive,
          .all_reduce = on_host::all_reduce,
          .reduce_scatter = on_host::reduce_scatter,
          .all_gather = on_host::all_gather};
}

}  // namespace ct
