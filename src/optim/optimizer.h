// The table of optimizers. A module is a struct of an optimizer's keys, with the members
//   kType          its name in a configuration
//   kBetas         its use of the rates' betas
//   keys()         its keys, bound to its members, whose initialisers are the defaults
//   fault()        optional: a violated rule between keys
//   decay()        optional: the kind of weight decay, for messages
//   rates()        the rates without a schedule
//   coefficients() the rule's Coefficients for the step number `applied`, counted from 0
//   rule()         the update of an element, with its options (graph/optimizer_rules.h)
// Optimizers whose update depends on whole tensors have further members, which lowering (plan/lowering/) uses: trust()
// of Lars and Lamb, from tensors' norms; directions(), orthogonalize() and adamw() of Muon.
#pragma once

#include "graph/ops.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
#include "optim/table.h"

namespace ct::optim {

using Optimizer = std::variant<Sgd, Adam, AdamW, RmsProp, Adagrad, Lion, Lamb, Lars, Muon>;

/// The names of a rule's states in checkpoints, in the rule's order; "": not kept.
template <class Rule>
std::vector<std::string> states_of(const Rule& rule) {
  std::vector<std::string> names;
  const auto kept = rules::kept_states<Rule>(rule.form);
  for (size_t i = 0; i < kept.size(); ++i) names.emplace_back(kept[i] ? Rule::kStates[i] : "");
  return names;
}

/// The rate and coefficients of a step; `applied` is the number of previous applied steps.
template <class Module>
ScheduleRow row_of(const Module& optimizer, const Rates& rates, int64_t applied) {
  return {rates.lr, rules::to_row<decltype(ScheduleRow::coefficients)>(optimizer.coefficients(rates, applied))};
}

/// The operation that updates weights.
template <class Rule>
RuleUpdate<Rule> update_by(const Rule& rule, Update update) {
  return {std::move(update), rule};
}

}  // namespace ct::optim
