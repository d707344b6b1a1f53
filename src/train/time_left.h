// Foretells how long a run will still take, from numbers alone.
#pragma once

#include <cstdint>
#include <optional>

namespace ct {

/// Steps take as long as they did lately. Evaluations, with the saves beside them, take as long as those so far; before
/// the first of them, as long as a guess.
class TimeLeft {
 public:
  struct Plan {
    int64_t first_step = 0, total_steps = 0;  // done before this process; of the whole run
    int64_t interval = 1;                     // steps from one evaluation to the next; the run's end has one too
    double evaluation_steps = 0;              // the guess: the number of steps that take as long
    double closing = 0;                       // the evaluation of the chosen weights: so many of the others
  };
  TimeLeft() = default;
  explicit TimeLeft(const Plan& plan) : plan_(plan) {}

  /// Seconds of this process so far: `trained` in steps, `aside` in evaluations and saves.
  void after_step(int64_t step, double trained, double aside);
  void after_evaluation(double aside);
  /// Seconds left after the latest step; nullopt after the first one, which takes longer than others. `evaluating`:
  /// those that an evaluation in progress has taken so far.
  std::optional<double> seconds(double evaluating = 0) const;

 private:
  struct Mark {
    int64_t step = 0;
    double trained = 0;
  };
  double seconds_a_step() const;
  int64_t evaluations_until(int64_t step) const;

  Plan plan_;
  Mark older_, newer_, now_;  // seconds_a_step() begins at older_
  double aside_before_ = 0, aside_ = 0;
  int64_t evaluated_ = 0;
};

}  // namespace ct
