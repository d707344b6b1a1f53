// One rank's end of NCCL: the connection, the calls that enter its stream, and the thread that ends it on failure.
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
  /// Connects this thread's GPU. Collective over `control`; see make_nccl() for what it throws.
  NcclLink(cudaStream_t stream, Communicator& control, const cuda::LibraryPlaces& places);
  /// Aborts NCCL, unless finish() came before.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The orderly end, by all ranks together when nothing of NCCL runs and no recording of it is left. Failures are no
  /// matter any more.
  void finish();
  /// "NCCL 2.27.7"
  std::string library() const;

  /// What `calls` calls of the functions below enters the stream as one operation, whose parts run at once: a send or
  /// receive alone would wait for its peer. Throws why, once the link has failed.
  void group(const std::function<void()>& calls);
  void send(const void* from, int64_t bytes, int to);
  void receive(void* to, int64_t bytes, int from);
  /// Sums in any order of the additions; out may be in.
  void all_reduce(const float* in, float* out, int64_t count);
  /// `count`: of a rank. `in` and `out` as NCCL has them for a whole that ranks own evenly, in rank order; what is this
  /// rank's may be at its place there.
  void reduce_scatter(const float* in, float* out, int64_t count);
  void all_gather(const void* in, void* out, int64_t bytes);

  /// Has NCCL failed here, or been aborted because a rank has called abort()? An end in order is no failure.
  bool failed() const { return failing_.load(std::memory_order_acquire); }
  /// Throws why NCCL has failed or was aborted, if so.
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
  std::optional<Error> failure_;                            // likewise; none where a peer's abort() is the reason
  std::atomic<bool> over_{false};                           // nothing may be called any more
  std::atomic<bool> failing_{false};                        // as soon as there is a failure, or an abort
  std::future<void> ended_;                                 // of the watching thread; when NCCL has ended
  std::thread watcher_;                                     // after all that it uses
};

}  // namespace ct
