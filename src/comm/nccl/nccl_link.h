// One rank's NCCL: the connection, the calls that enqueue work in its stream, and the thread that aborts it on failure.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/nccl/nccl_api.h"

namespace ct {

class NcclLink {
 public:
  /// Connects this thread's GPU. Collective over `control`. Throws the errors of make_nccl().
  NcclLink(cudaStream_t stream, Communicator& control, const cuda::LibraryPlaces& places);
  /// Aborts NCCL, unless finish() was called.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The regular end, called by all ranks when no NCCL work runs and all recordings are destroyed. Later failures are
  /// ignored.
  void finish();
  /// "NCCL 2.27.7"
  std::string library() const;

  /// Enqueues all calls of the functions below that `calls` makes as one operation, whose parts run concurrently; a
  /// single send or receive would wait for its peer. If the link has failed, throws the cause.
  void group(const std::function<void()>& calls);
  void send(const void* from, int64_t bytes, int to);
  void receive(void* to, int64_t bytes, int from);
  /// Sums in any order; out may be in.
  void all_reduce(const float* in, float* out, int64_t count);
  /// `count`: elements of one rank. `in` and `out` as in NCCL, for a whole with equal parts in rank order; this rank's
  /// part may be at its place in the whole.
  void reduce_scatter(const float* in, float* out, int64_t count);
  void all_gather(const void* in, void* out, int64_t bytes);

  /// Has NCCL failed here, or been aborted because a rank called abort()? A regular end is not a failure.
  bool failed() const { return failing_.load(std::memory_order_acquire); }
  /// Throws the cause if NCCL has failed or was aborted.
  void throw_if_failed();

 private:
  void check(ncclResult_t status, const char* call) const;
  void watch();
  void end_watch(bool in_order);

  NcclApi api_;
  Communicator& control_;
  cudaStream_t stream_;
  int rank_, size_, version_;
  ncclComm_t comm_ = nullptr;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool calling_ = false, stop_ = false, in_order_ = false;  // with the mutex held
  std::optional<Error> failure_;      // with the mutex held; nullopt if another rank's abort() is the cause
  std::atomic<bool> over_{false};     // no function may be called any more
  std::atomic<bool> failing_{false};  // there is a failure or an abort
  std::future<void> ended_;           // set by the watching thread when NCCL has ended
  std::thread watcher_;               // declared after all members that it uses
};

}  // namespace ct
