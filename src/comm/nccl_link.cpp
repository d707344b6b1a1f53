#include "comm/nccl_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ct {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kFarewell = std::chrono::seconds(5);

std::string version_text(int version) {
  const int major = version < 10000 ? 1000 : 10000;  // 2.8.4 is 2804, 2.9.6 is 20906
  return str(version / major, ".", version % major / 100, ".", version % 100);
}

std::string one_line(const char* text) {
  std::string line = text == nullptr ? "" : text;
  std::ranges::replace(line, '\n', ' ');
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

struct Meaning {
  ExitCode code;
  const char* remedy;
};
Meaning meaning(ncclResult_t status) {
  switch (status) {
    case ncclUnhandledCudaError:
    case ncclSystemError:
    case ncclRemoteError:
      return {ExitCode::peer,
              "a rank was lost, or GPUs cannot reach each other; run the same command again, which goes on from the "
              "last checkpoint, and if it happens again, with NCCL_DEBUG=INFO to learn more"};
    case ncclInvalidUsage:
      return {ExitCode::usage, "give each rank a GPU of its own, or set communication.share_device: true"};
    case ncclInProgress:
      return {ExitCode::usage, "unset NCCL_COMM_BLOCKING"};
    default:
      return {ExitCode::bug, "run with NCCL_DEBUG=INFO to learn more"};
  }
}

}  // namespace

int usable_version(const NcclApi& api) {
  constexpr int kOldest = 21800;
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
  // Calls that return at once and are asked for until they are done would let this thread give up a meeting by itself.
  // But they launch from threads of NCCL's, also into a stream that is recorded, which few programs do. Here the
  // meeting is the one call that nobody ends: all ranks were alive a moment ago, and a peer's death closes its sockets.
  config.blocking = 1;
  check(api_.comm_init_rank_config(&comm_, size_, id, rank_, &config), "ncclCommInitRankConfig");
  watcher_ = std::thread([this] { watch(); });
}

NcclLink::~NcclLink() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  watcher_.join();
  // An abort waits until recordings are gone, which a GPU that is lost may never say; its peers wait for this rank, and
  // nothing more runs on that GPU.
  aborted_.wait_for(kFarewell);
}

std::string NcclLink::library() const { return "NCCL " + version_text(version_); }

void NcclLink::check(ncclResult_t status, const char* call) const {
  if (status == ncclSuccess) return;
  const Meaning what = meaning(status);
  const std::string detail = one_line(api_.get_last_error(comm_));
  fail(what.code, call, ": ", api_.get_error_string(status), detail.empty() ? "" : ": ", detail, " (", library(),
       " in ", api_.path, "): ", what.remedy);
}

void NcclLink::throw_if_failed() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
    if (!over_) return;
  }
  control_.barrier();  // knows which rank gave up, and why
  fail(ExitCode::peer, "NCCL was aborted: the job has failed");
}

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

/// The only place that ends the connection: at once on a failure, so that the stream drains and whoever waits for it
/// goes on; else when the link goes. An abort at the good end as well, for it needs no peer, while an orderly farewell
/// waits for all of them.
void NcclLink::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_ && !failure_ && !control_.aborted()) {
    ncclResult_t state = ncclSuccess;
    try {
      check(api_.comm_get_async_error(comm_, &state), "ncclCommGetAsyncError");
      if (state != ncclInProgress) check(state, "a collective of NCCL");
    } catch (const Error& error) {
      failure_ = error;
    }
    changed_.wait_for(lock, kLook, [this] { return stop_ || failure_.has_value(); });
  }
  over_ = true;
  // A call that does not come to an end waits for a peer, and only the abort ends it.
  changed_.wait_for(lock, kPatience, [this] { return !calling_; });
  lock.unlock();
  // Sets what kernels look at, then waits for recordings to go: nobody can wait for it here.
  std::packaged_task<void()> abort([abort = api_.comm_abort, comm = comm_] { abort(comm); });
  aborted_ = abort.get_future();
  std::thread(std::move(abort)).detach();
}

}  // namespace ct
