// Signs of life of one rank: written by it as it works, read by the watchdogs (comm/watchdog/watchdog.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace ct {

/// What a rank is doing, for people and for deadlines.
enum class Phase : uint32_t { start, data, step, save, evaluation, end };
inline std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {"start", "data", "step", "save", "evaluation", "end"};
  const auto i = static_cast<size_t>(phase);  // of a peer, which may be anything
  return i < std::size(kNames) ? kNames[i] : "an unknown phase";
}

/// A rank's signs of life, in memory that peers may share, zero at first. Written by one rank only.
struct Heartbeat {
  std::atomic<uint64_t> beats{0};        // by the rank's watchdog: its process runs
  std::atomic<uint64_t> progress{0};     // by the rank: it gets somewhere
  std::atomic<uint64_t> collectives{0};  // meetings with its peers so far, begun or done
  std::atomic<uint32_t> waiting{0};      // collectives in which it waits for a peer
  std::atomic<Phase> phase{Phase::start};
  std::atomic<uint32_t> ended{0};  // 1: nothing is to be expected of it any more, all is well

  void advance(Phase now) {
    phase.store(now, std::memory_order_relaxed);
    progress.store(progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

}  // namespace ct
