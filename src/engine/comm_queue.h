// The queue on which a program's communication runs: beside computation on a thread of its own, or, where a collective
// keeps the core busy anyhow, in line.
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
  std::optional<bool> overlap_comm;  // absent: as the transport overlaps. On a GPU its stream is the queue, in any case
};

class CommQueue {
 public:
  using Launch = std::function<void()>;

  /// `most`: communications under way at a time. `enter`: called once by the queue's thread.
  CommQueue(bool beside, size_t most, const std::function<void()>& enter);
  ~CommQueue();
  CommQueue(const CommQueue&) = delete;
  CommQueue& operator=(const CommQueue&) = delete;

  bool beside() const { return thread_.joinable(); }
  /// Starts the next communication; `launch` must live until it is complete.
  void start(const Launch& launch);
  /// How many were started so far: the number of the next one.
  int64_t started() const { return started_.load(std::memory_order_relaxed); }
  /// Waits until communication `number`, counted from the first ever, is complete. Throws what any of them threw.
  void wait(int64_t number);
  /// Waits until all are complete. What is still queued when the queue goes is dropped, though peers may wait for it:
  /// an orderly end drains first.
  void drain() { wait(started() - 1); }

 private:
  void work(const std::function<void()>& enter);

  std::vector<const Launch*> queue_;  // a ring; written before started_ says so
  std::atomic<int64_t> started_{0}, done_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace ct
