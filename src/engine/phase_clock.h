// What the time of a step goes to (wall_clock_breakdown): forward pass, backward pass, exchanges between ranks, update.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/backend.h"

namespace ct {

/// Exchanges are told apart by when they are: of a micro-step (gradients; parameters of ZeRO stage 3), or of the update
/// (norms, new parameters). Where they run beside computation, only what computation waits for them counts.
enum class StepPhase : uint8_t { forward, backward, exchange, update, update_exchange };
inline constexpr size_t kPhases = 5;

/// Seconds by phase.
struct PhaseSeconds : std::array<double, kPhases> {
  double operator[](StepPhase phase) const { return data()[static_cast<size_t>(phase)]; }
  double& operator[](StepPhase phase) { return data()[static_cast<size_t>(phase)]; }
};

/// Times phases by the device's own clock, in the order of its work, without making the host wait but now and then.
class PhaseClock {
 public:
  explicit PhaseClock(Backend& backend) : backend_(backend) {}
  /// What is launched from here on, to the next enter() or leave(), is of `phase`; absent: of none.
  void enter(std::optional<StepPhase> phase) { mark(phase); }
  void leave();
  /// Seconds since the last call; waits until the device is there. Not between enter() and leave().
  PhaseSeconds take();

 private:
  void mark(std::optional<StepPhase> phase);
  void add_up();

  struct Mark {
    std::unique_ptr<Instant> at;
    std::optional<StepPhase> phase;  // of what follows
  };
  Backend& backend_;
  std::vector<Mark> marks_;  // made once, and used again
  size_t used_ = 0;
  PhaseSeconds seconds_{};
};

}  // namespace ct
