#include "engine/phase_clock.h"

#include <utility>

namespace ct {

void PhaseClock::mark(std::optional<StepPhase> phase) {
  if (used_ == marks_.size()) marks_.push_back({backend_.make_instant(), {}});
  Mark& next = marks_[used_++];
  next.at->set();
  next.phase = phase;
}

void PhaseClock::leave() {
  constexpr size_t kMany = 256;  // marks between two waits for the device
  mark({});
  if (used_ >= kMany) add_up();
}

PhaseSeconds PhaseClock::take() {
  add_up();
  return std::exchange(seconds_, {});
}

/// The last mark ends a phase and begins none.
void PhaseClock::add_up() {
  for (size_t i = 1; i < used_; ++i)
    if (const auto phase = marks_[i - 1].phase) seconds_[*phase] += marks_[i].at->seconds_since(*marks_[i - 1].at);
  used_ = 0;
}

}  // namespace ct
