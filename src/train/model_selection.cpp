#include "train/model_selection.h"

#include <cmath>

#include "base/error.h"

namespace ct {

double Judged::Figures::of(Metric metric) const {
  switch (metric) {
    case Metric::accuracy:
      return accuracy;
    case Metric::loss:
      return loss;
  }
  fail(ExitCode::bug, "no such metric");
}

bool better(Metric metric, double a, double b) {
  switch (metric) {
    case Metric::accuracy:
      return a > b;
    case Metric::loss:
      return a < b;
  }
  fail(ExitCode::bug, "no such metric");
}

double ModelSelection::value(const Judged& judged) const { return chosen(judged).value(config_.train.best.metric); }

bool ModelSelection::is_best(const Judged& judged) const {
  if (state_.best_step < 0) return true;
  const double now = value(judged);
  return !std::isnan(now) &&
         (config_.train.best.split == BestSplit::last || replaces(config_.train.best.metric, now, state_.best_value));
}

void ModelSelection::remember(const Judged& judged) {
  const double now = value(judged);
  if (std::isnan(now)) return;
  state_.best_step = state_.step;
  state_.best_value = now;
}

bool ModelSelection::out_of_patience(const Judged& judged) {
  const auto& stopping = config_.train.early_stopping;
  const double now = judged.first.of(stopping.metric);
  const bool first = state_.patience_used < 0;
  if (std::isfinite(now) && (first || better(stopping.metric, now, state_.patience_value))) {
    state_.patience_value = now;
    state_.patience_used = 0;
    return false;
  }
  if (first) return false;
  // The evaluation that ends a run is not counted: a run that goes on, with more patience, repeats it.
  if (stopping.patience > 0 && state_.patience_used + 1 >= stopping.patience) return true;
  ++state_.patience_used;  // without early stopping, too, which a run may take up when it goes on
  return false;
}

}  // namespace ct
