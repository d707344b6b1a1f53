#include "train/group_rates.h"

#include "train/setup.h"

namespace ct {

GroupRates::GroupRates(const Config& config, const RunLength& run)
    : optimizer_(config.optimizer.value()), rates_(step_rates(config, run)) {
  for (const optim::ParameterGroup& group : config.optimizer_groups) scales_.push_back(group.lr_scale);
  scales_.push_back(1);
}

std::vector<double> GroupRates::lr(int64_t step) const {
  std::vector<double> all;
  const double lr = rates_(step).lr;
  for (const double scale : scales_) all.push_back(lr * scale);
  if (const auto* muon = std::get_if<optim::Muon>(&optimizer_)) all.push_back(lr * muon->adamw_share());
  return all;
}

std::vector<GroupMomentum> GroupRates::momenta(int64_t step) const {
  const Rates rates = rates_(step);
  const GroupMomentum betas{rates.betas[0], rates.betas[1]};
  const auto all_groups = [&](const GroupMomentum& own) { return std::vector(scales_.size(), own); };
  switch (std::visit([]<class O>(const O&) { return O::kBetas; }, optimizer_)) {
    case BetasAre::nothing:
    case BetasAre::momentum:
      return all_groups({rates.betas[0], {}});
    case BetasAre::pair:
      return all_groups(betas);
    case BetasAre::fixed_pair:
      break;
  }
  std::vector<GroupMomentum> all = all_groups({std::get<optim::Muon>(optimizer_).momentum, {}});
  all.push_back(betas);
  return all;
}

}  // namespace ct
