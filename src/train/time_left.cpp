#include "train/time_left.h"

#include <algorithm>

namespace ct {

void TimeLeft::after_step(int64_t step, double trained, double aside) {
  now_ = {step, trained};
  if (step == plan_.first_step + 1) {  // which is slower than others
    older_ = newer_ = now_;
    aside_before_ = aside_ = aside;
  }
  if (now_.trained > 2 * newer_.trained) {  // at least the latest half counts, and at most three quarters
    older_ = newer_;
    newer_ = now_;
  }
}

void TimeLeft::after_evaluation(double aside) {
  ++evaluated_;
  aside_ = aside;
}

double TimeLeft::seconds_a_step() const {
  return (now_.trained - older_.trained) / static_cast<double>(now_.step - older_.step);
}

int64_t TimeLeft::evaluations_until(int64_t step) const {
  return step / plan_.interval - plan_.first_step / plan_.interval + (step % plan_.interval != 0);
}

std::optional<double> TimeLeft::seconds(double evaluating) const {
  if (now_.step == older_.step) return std::nullopt;
  const double evaluation = evaluated_ > 0 ? (aside_ - aside_before_) / static_cast<double>(evaluated_)
                                           : plan_.evaluation_steps * seconds_a_step();
  const auto steps = static_cast<double>(plan_.total_steps - now_.step);
  const auto evaluations = static_cast<double>(std::max<int64_t>(evaluations_until(plan_.total_steps) - evaluated_, 0));
  const double all = (evaluations + plan_.closing) * evaluation;
  return std::max(steps * seconds_a_step() + all - std::min(evaluating, evaluation), 0.0);
}

}  // namespace ct
