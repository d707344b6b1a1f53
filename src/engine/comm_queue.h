// The queue of a program's communication: on its own thread in parallel with computation, or in line if collectives
// occupy the core.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

namespace ct {

struct CommQueueOptions {
  std::optional<bool> overlap_comm;  // absent: if the transport overlaps. On a GPU the stream is always the queue
};

class CommQueue {
 public:
  using Launch = std::function<void()>;

  /// `most`: the largest number of communications in flight. `enter`: called once by the queue's thread.
  CommQueue(bool beside, size_t most, const std::function<void()>& enter);
  ~CommQueue();
  CommQueue(const CommQueue&) = delete;
  CommQueue& operator=(const CommQueue&) = delete;

  bool beside() const { return thread_.joinable(); }
  /// Starts the next communication; `launch` must live until it is complete.
  void start(const Launch& launch);
  /// The number of communications started so far, which is the number of the next one.
  int64_t started() const { return started_.load(std::memory_order_relaxed); }
  /// Waits until communication `number`, counted from 0, is complete. Rethrows an exception of any communication.
  void wait(int64_t number);
  /// Waits until all are complete. The destructor drops queued communications, for which other ranks may wait, so
  /// before a normal end the caller must drain.
  void drain() { wait(started() - 1); }

 private:
  void work(const std::function<void()>& enter);

  std::vector<const Launch*> queue_;  // a ring; an entry is written before started_ is incremented
  std::atomic<int64_t> started_{0}, done_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace ct
