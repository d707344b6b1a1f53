// The lane on which a program's communication runs: beside computation on a thread of its own, or, where a collective
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

struct LaneOptions {
  std::optional<bool> beside;  // absent: as the transport overlaps
};

class CommLane {
 public:
  using Launch = std::function<void()>;

  /// `most`: communications of one program. `enter`: called once by the lane's thread.
  CommLane(bool beside, size_t most, const std::function<void()>& enter);
  ~CommLane();
  CommLane(const CommLane&) = delete;
  CommLane& operator=(const CommLane&) = delete;

  bool beside() const { return thread_.joinable(); }
  /// The next communication of the running program; `launch` must live until drain().
  void start(const Launch& launch);
  /// Until communication `number` of the running program is complete, counted from 0. Throws what it threw.
  void wait(int number);
  /// Until all are complete; the next start() is number 0 again.
  void drain();

 private:
  void work(const std::function<void()>& enter);
  void rethrow();

  std::vector<const Launch*> queue_;  // a ring; written before started_ says so
  std::atomic<int64_t> started_{0}, done_{0};
  int64_t first_ = 0;  // of the running program
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace ct
