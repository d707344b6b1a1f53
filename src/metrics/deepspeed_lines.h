// Lines as DeepSpeed prints them (utils/logging.py, utils/timer.py and runtime/engine.py of 0.16.5).
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ct {

/// A number as Python's repr() has it: "0.001", "1e-05", "65536.0", "nan".
std::string python_number(double value);

/// What a parameter group's momentum is: one number, or two betas.
struct GroupMomentum {
  double first = 0;
  std::optional<double> second;
};

/// Python writes a pair that came from a configuration as a list, one from its own code as a tuple, and a momentum that
/// nobody gave as the whole number 0.
enum class Pairs : bool { lists, tuples };

/// "step=10, skipped=0, lr=[0.001], mom=[[0.8, 0.999]]": rates and momenta by parameter group.
std::string step_line(int64_t step, int64_t skipped, std::span<const double> lr, std::span<const GroupMomentum> momenta,
                      Pairs pairs = Pairs::lists);

struct Throughput {
  int64_t micro_steps = 0, steps = 0;  // of this process
  double running = 0, current = 0;     // samples a second
  int64_t bytes = 0, most_bytes = 0;   // of memory, now and at the most
};
/// "epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=..., ..., MaxMemAllocated=0.25GB". The epoch is 0.
std::string throughput_line(const Throughput& throughput);

/// "time (ms) | fwd: 1.20 | bwd: 2.40": names and milliseconds.
std::string timer_line(std::span<const std::pair<std::string_view, double>> times);

/// "[2025-02-21 12:05:41,123] [INFO] [FILE.py:LINE:FUNCTION] text", in local time. `where`: "FILE.py:LINE:FUNCTION".
std::string log_line(std::string_view where, std::string_view text,
                     std::chrono::system_clock::time_point now = std::chrono::system_clock::now());
/// The same from log_dist, by rank 0.
std::string log_dist_line(std::string_view text,
                          std::chrono::system_clock::time_point now = std::chrono::system_clock::now());
/// Where the throughput line comes from.
inline constexpr std::string_view kThroughputTimer = "timer.py:264:stop";

}  // namespace ct
