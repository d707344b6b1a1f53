// What becomes of NCCL's failures: their exit codes and remedies, and the thread that looks for them.
#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/nccl/nccl_link.h"

namespace ct {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::seconds(1);

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
              "a rank was lost, or GPUs cannot reach each other; run the same command again, which continues from the "
              "last checkpoint; if it happens again, set NCCL_DEBUG=INFO for details"};
    case ncclInvalidUsage:
      return {ExitCode::usage, "give each rank a GPU of its own, or set communication.share_device: true"};
    case ncclInProgress:
      return {ExitCode::usage, "unset NCCL_COMM_BLOCKING"};
    default:
      return {ExitCode::bug, "set NCCL_DEBUG=INFO for details"};
  }
}

}  // namespace

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

/// The only place that ends the connection: in order where finish() says so, for then all peers do so too. Else by an
/// abort, which needs no peer: at once on a failure, so that the stream drains and whoever waits for it goes on, or
/// when the link goes.
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
  if (!in_order_ || failure_) failing_ = true;
  // A call that does not come to an end waits for a peer, and only the abort ends it.
  changed_.wait_for(lock, kPatience, [this] { return !calling_; });
  const bool in_order = in_order_ && !failure_ && !control_.aborted();
  lock.unlock();
  // An abort sets what kernels look at, then waits for recordings to go: nobody can wait for it here.
  std::packaged_task<void()> end([api = api_, comm = comm_, in_order] {
    if (!in_order) return void(api.comm_abort(comm));
    // What cannot be finalised, with a peer lost this very moment, is aborted.
    if (api.comm_finalize(comm) != ncclSuccess) return void(api.comm_abort(comm));
    api.comm_destroy(comm);
  });
  ended_ = end.get_future();
  std::thread(std::move(end)).detach();
}

}  // namespace ct
