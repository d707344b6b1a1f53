// The times of the phases of a step (wall_clock_breakdown): forward pass, backward pass, exchanges between ranks,
// update.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/backend.h"

namespace ct {

/// `exchange` belongs to a micro-step (gradients; parameters in ZeRO stage 3), `update_exchange` to the update (norms,
/// new parameters). If they overlap computation, only the time for which computation waits counts.
enum class StepPhase : uint8_t { forward, backward, exchange, update, update_exchange };
inline constexpr size_t kPhases = 5;

/// Seconds by phase.
struct PhaseSeconds : std::array<double, kPhases> {
  double operator[](StepPhase phase) const { return data()[static_cast<size_t>(phase)]; }
  double& operator[](StepPhase phase) { return data()[static_cast<size_t>(phase)]; }
};

/// Times phases by the device's clock, in the order of its work; the host waits only occasionally.
class PhaseClock {
 public:
  explicit PhaseClock(Backend& backend) : backend_(backend) {}
  /// Launches until the next enter() or leave() belong to `phase`; nullopt: to none.
  void enter(std::optional<StepPhase> phase) { mark(phase); }
  void leave();
  /// Seconds since the last call; waits for the device. Must not be called between enter() and leave().
  PhaseSeconds take();

 private:
  void mark(std::optional<StepPhase> phase);
  void add_up();

  struct Mark {
    std::unique_ptr<Instant> at;
    std::optional<StepPhase> phase;  // of the following launches
  };
  Backend& backend_;
  std::vector<Mark> marks_;  // created once and reused
  size_t used_ = 0;
  PhaseSeconds seconds_{};
};

}  // namespace ct
