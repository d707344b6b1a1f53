// The table of optimizers. A module is a struct of its keys and what they mean:
//   kType          its name in a configuration
//   kBetas         what it makes of its rates' betas
//   keys()         its keys, bound to its members, whose initialisers are the defaults
//   fault()        of those that have one: a rule between keys
//   decay()        of those that have it: which weight decay it is, for people
//   rates()        what a schedule starts from
//   coefficients() the rule's Coefficients for the step number `applied`, counted from 0
//   rule()         how it changes an element, with its options (graph/optimizer_rules.h)
// What needs to know more of a tensor than an element says so by further members, which lowering asks for
// (plan/lowering/): trust() of Lars and Lamb, what follows from whole tensors' norms; directions(), orthogonalize()
// and adamw() of Muon.
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

/// What a rule remembers, in its order, by the names that checkpoints have; "": not kept.
template <class Rule>
std::vector<std::string> states_of(const Rule& rule) {
  std::vector<std::string> names;
  const auto kept = rules::kept_states<Rule>(rule.form);
  for (size_t i = 0; i < kept.size(); ++i) names.emplace_back(kept[i] ? Rule::kStates[i] : "");
  return names;
}

/// The numbers of a step; `applied` counts the steps before it.
template <class Module>
ScheduleRow row_of(const Module& optimizer, const Rates& rates, int64_t applied) {
  return {rates.lr, rules::to_row<decltype(ScheduleRow::coefficients)>(optimizer.coefficients(rates, applied))};
}

/// The operation that changes weights.
template <class Rule>
RuleUpdate<Rule> update_by(const Rule& rule, Update update) {
  return {std::move(update), rule};
}

}  // namespace ct::optim
