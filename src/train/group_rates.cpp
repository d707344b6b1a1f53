#include "train/group_rates.h"

#include "train/setup.h"

namespace ct {
namespace {

template <class T>
constexpr bool kIsMuon = std::is_same_v<T, optim::Muon>;

}  // namespace

GroupRates::GroupRates(const Config& config, int64_t run_steps)
    : optimizer_(config.optimizer.value()), rates_(step_rates(config, run_steps)) {
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
  return std::visit(
      [&]<class T>(const T& optimizer) {
        GroupMomentum own{rates.betas[0], {}};
        if constexpr (requires { optimizer.betas; }) own = betas;
        if constexpr (kIsMuon<T>) own = {optimizer.momentum, {}};
        std::vector<GroupMomentum> all(scales_.size(), own);
        if constexpr (kIsMuon<T>) all.push_back(betas);
        return all;
      },
      optimizer_);
}

}  // namespace ct
