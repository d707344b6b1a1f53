#include "deepspeed/log_lines.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "train/loss_scale_report.h"

namespace ct {
namespace {

using NamedTime = std::pair<std::string_view, double>;

/// round(bytes / 1024**3, 2)
std::string gigabytes(int64_t bytes) {
  return python_number(std::round(static_cast<double>(bytes) / (1 << 30) * 100) / 100);
}

}  // namespace

std::string tuple_text(const GroupMomentum& momentum) {
  const std::string first = momentum.first == 0 && !momentum.second ? "0" : python_number(momentum.first);
  return momentum.second ? "(" + first + ", " + python_number(*momentum.second) + ")" : first;
}

std::string throughput_line(const Throughput& throughput) {
  return str("epoch=0/micro_step=", throughput.micro_steps, "/global_step=", throughput.steps,
             ", RunningAvgSamplesPerSec=", python_number(throughput.running),
             ", CurrSamplesPerSec=", python_number(throughput.current), ", MemAllocated=", gigabytes(throughput.bytes),
             "GB, MaxMemAllocated=", gigabytes(throughput.most_bytes), "GB");
}

std::string optimizer_time_line(const DeepSpeedTimes& times) {
  return timer_line(std::array<NamedTime, 3>{{{"optimizer_allgather", times.optimizer_allgather},
                                              {"optimizer_gradients", 0},
                                              {"optimizer_step", times.optimizer_step}}});
}

std::string micro_step_time_line(const DeepSpeedTimes& times, int micro_steps) {
  const auto share = [&](double milliseconds) { return milliseconds / micro_steps; };
  return timer_line(std::array<NamedTime, 5>{{{"fwd_microstep", share(times.forward)},
                                              {"bwd_microstep", share(times.backward())},
                                              {"bwd_inner_microstep", share(times.backward_inner)},
                                              {"bwd_allreduce_microstep", share(times.backward_allreduce)},
                                              {"step_microstep", times.step()}}});
}

std::string step_time_line(const DeepSpeedTimes& times) {
  return timer_line(std::array<NamedTime, 5>{{{"fwd", times.forward},
                                              {"bwd", times.backward()},
                                              {"bwd_inner", times.backward_inner},
                                              {"bwd_allreduce", times.backward_allreduce},
                                              {"step", times.step()}}});
}

std::vector<std::string> loss_scale_lines(const LossScaleOptions& options, const LossScaleState& before,
                                          const LossScaleState& after, bool overflow) {
  if (!options.dynamic) return {};
  const std::string from_to =
      str(" dynamic loss scale from ", scale_text(before.scale), " to ", scale_text(after.scale));
  if (!options.without_hysteresis) {
    if (!overflow) return {};
    return {"[deepspeed] OVERFLOW! Rank 0 Skipping step. " + overflow_text(options, before, after)};
  }
  if (overflow)
    return {str("Grad overflow on iteration ", before.step), "Reducing" + from_to,
            "Overflow detected. Skipping step. " + overflow_text(options, before, after)};
  if (after.scale <= before.scale) return {};
  return {str("No Grad overflow for ", options.window, " iterations"), "Increasing" + from_to};
}

std::string log_line(std::string_view where, std::string_view text, std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(now));
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("[{},{:03}] [INFO] [{}] {}", local_time(seconds), milliseconds, where, text);
}

std::string log_dist_line(std::string_view text, std::chrono::system_clock::time_point now) {
  return log_line("logging.py:128:log_dist", str("[Rank 0] ", text), now);
}

}  // namespace ct
