// The signs of life of a rank, written by the rank and read by the watchdogs (comm/watchdog/watchdog.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace ct {

/// The current work of a rank, for messages and deadlines.
enum class Phase : uint32_t { start, data, step, save, evaluation, end };
inline std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::start:
      return "start";
    case Phase::data:
      return "data";
    case Phase::step:
      return "step";
    case Phase::save:
      return "save";
    case Phase::evaluation:
      return "evaluation";
    case Phase::end:
      return "end";
  }
  return "an unknown phase";
}

/// A rank's signs of life, initially zero, in memory that other ranks may share. Only the rank itself writes them.
struct Heartbeat {
  std::atomic<uint64_t> beats{0};        // counted by the rank's watchdog: the process runs
  std::atomic<uint64_t> progress{0};     // counted by the rank: the work progresses
  std::atomic<uint64_t> collectives{0};  // collectives so far, begun or done
  std::atomic<uint32_t> waiting{0};      // collectives in which the rank waits for another rank
  std::atomic<Phase> phase{Phase::start};
  std::atomic<uint32_t> ended{0};  // 1: the rank has ended normally

  void advance(Phase now) {
    phase.store(now, std::memory_order_relaxed);
    progress.store(progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

}  // namespace ct
