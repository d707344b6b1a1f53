#include "comm/nccl/nccl_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "device/cuda/library_names.h"

namespace ct {
namespace {

constexpr auto kFarewell = std::chrono::seconds(5);

std::string version_text(int version) {
  const int major = version < 10000 ? 1000 : 10000;  // 2.8.4 is 2804, 2.9.6 is 20906
  return str(version / major, ".", version % major / 100, ".", version % 100);
}

}  // namespace

int usable_version(const NcclApi& api) {
  constexpr int kOldest = cuda::kOldestNccl;
  int version = 0;
  const ncclResult_t status = api.get_version(&version);
  if (status != ncclSuccess)
    fail(ExitCode::usage, "ncclGetVersion: ", api.get_error_string(status), " (", api.path,
         "): give the folder of another NCCL by --cuda-path");
  if (version < kOldest)
    fail(ExitCode::usage, "NCCL ", version_text(version), " in ", api.path, " is too old, ", version_text(kOldest),
         " or later is needed: give the folder of a newer one by --cuda-path");
  return version;
}

NcclLink::NcclLink(cudaStream_t stream, Communicator& control, const cuda::LibraryPlaces& places)
    : api_(open_nccl(places)),
      control_(control),
      stream_(stream),
      rank_(control.rank()),
      size_(control.size()),
      version_(usable_version(api_)) {
  ncclUniqueId id{};
  if (rank_ == 0) check(api_.get_unique_id(&id), "ncclGetUniqueId");
  control_.broadcast(std::as_writable_bytes(std::span(id.internal)), 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Calls that return at once and are asked for until they are done would let this thread give up a rendezvous by
  // itself. But they launch from threads of NCCL's, also into a stream that is recorded, which few programs do. Here
  // the rendezvous is the one call that nobody ends: all ranks were alive a moment ago, and a peer's death closes its
  // sockets.
  config.blocking = 1;
  check(api_.comm_init_rank_config(&comm_, size_, id, rank_, &config), "ncclCommInitRankConfig");
  watcher_ = std::thread([this] { watch(); });
}

NcclLink::~NcclLink() { end_watch(/*in_order=*/false); }

void NcclLink::finish() { end_watch(/*in_order=*/true); }

void NcclLink::end_watch(bool in_order) {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    in_order_ = in_order;
  }
  changed_.notify_all();
  watcher_.join();
  // An abort waits until recordings are gone, which a GPU that is lost may never say, and an orderly end for peers, of
  // which one may be lost this very moment; its peers wait for this rank, and nothing more runs on its GPU.
  ended_.wait_for(kFarewell);
}

std::string NcclLink::library() const { return "NCCL " + version_text(version_); }

void NcclLink::group(const std::function<void()>& calls) {
  {
    const std::lock_guard lock(mutex_);
    calling_ = !over_ && !failure_;  // from here on the watching thread waits before it ends NCCL
  }
  throw_if_failed();
  std::optional<Error> error;
  try {
    check(api_.group_start(), "ncclGroupStart");
    try {
      calls();
    } catch (...) {
      api_.group_end();  // each thread counts its groups
      throw;
    }
    check(api_.group_end(), "ncclGroupEnd");
  } catch (const Error& e) {
    error = e;
  }
  {
    const std::lock_guard lock(mutex_);
    calling_ = false;
    if (error && !failure_ && !over_) failure_ = error;
    if (failure_) failing_ = true;
  }
  changed_.notify_all();
  if (!error) return;
  throw_if_failed();  // a peer's failure rather than its consequence
  throw Error(*error);
}

void NcclLink::send(const void* from, int64_t bytes, int to) {
  check(api_.send(from, static_cast<size_t>(bytes), ncclUint8, to, comm_, stream_), "ncclSend");
}

void NcclLink::receive(void* to, int64_t bytes, int from) {
  check(api_.recv(to, static_cast<size_t>(bytes), ncclUint8, from, comm_, stream_), "ncclRecv");
}

void NcclLink::all_reduce(const float* in, float* out, int64_t count) {
  check(api_.all_reduce(in, out, static_cast<size_t>(count), ncclFloat32, ncclSum, comm_, stream_), "ncclAllReduce");
}

void NcclLink::reduce_scatter(const float* in, float* out, int64_t count) {
  check(api_.reduce_scatter(in, out, static_cast<size_t>(count), ncclFloat32, ncclSum, comm_, stream_),
        "ncclReduceScatter");
}

void NcclLink::all_gather(const void* in, void* out, int64_t bytes) {
  check(api_.all_gather(in, out, static_cast<size_t>(bytes), ncclUint8, comm_, stream_), "ncclAllGather");
}

}  // namespace ct
