// Rates and momenta by parameter group: first optimizer.groups in their order, then all other parameters, then, with
// Muon, the parameters that AdamW updates.
#pragma once

#include <functional>
#include <vector>

#include "metrics/step_line.h"
#include "optim/rates.h"
#include "train/config/config.h"

namespace ct {

class GroupRates {
 public:
  GroupRates(const Config& config, const RunLength& run);

  /// The values of applied step number `step`, counted from 0.
  std::vector<double> lr(int64_t step) const;
  std::vector<GroupMomentum> momenta(int64_t step) const;

 private:
  optim::Optimizer optimizer_;
  std::vector<double> scales_;  // of the rate, by group
  std::function<Rates(int64_t step)> rates_;
};

}  // namespace ct
