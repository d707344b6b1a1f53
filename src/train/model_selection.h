// Selects the best evaluation (train.best) and the end of training (train.early_stopping), from numbers alone, without
// files or ranks.
#pragma once

#include <cmath>

#include "train/config/config.h"
#include "train/run/run_state.h"

namespace ct {

/// The compared numbers of an evaluation's splits. `first` is val if images are held out, otherwise test.
struct Judged {
  struct Figures {
    double loss = 0, accuracy = 0;
    double of(Metric metric) const;
    /// The value that train.best compares: NaN if the loss is not finite.
    double value(Metric metric) const { return std::isfinite(loss) ? of(metric) : std::nan(""); }
  };
  Figures first, test;
};

/// Is `a` better than `b` by this metric?
bool better(Metric metric, double a, double b);
/// Is an evaluation the best, and no longer the one before it? Of equal ones the newest is: on few images most are
/// equal, and the newest has learned most.
inline bool replaces(Metric metric, double now, double best) { return now == best || better(metric, now, best); }

/// Keeps its numbers in the run's state, which is saved and restored.
class ModelSelection {
 public:
  /// `config` and `state` must outlive this. `holds_out`: Judged::first is val.
  ModelSelection(const Config& config, RunState& state, bool holds_out)
      : config_(config), state_(state), holds_out_(holds_out) {}

  /// The value of train.best.metric on train.best.split; NaN if the loss is not finite.
  double value(const Judged& judged) const;
  /// Is this evaluation the best so far (see replaces())? The first always is. A finite value is better than a
  /// non-finite one.
  bool is_best(const Judged& judged) const;
  /// Records an evaluation as the best, after its weights were saved. Non-finite ones are not recorded.
  void remember(const Judged& judged);

  /// Counts evaluations without a better value; true: train.early_stopping has no patience left.
  bool out_of_patience(const Judged& judged);

 private:
  const Judged::Figures& chosen(const Judged& judged) const {
    return config_.train.best.split == BestSplit::val || !holds_out_ ? judged.first : judged.test;
  }

  const Config& config_;
  RunState& state_;
  bool holds_out_;
};

}  // namespace ct
