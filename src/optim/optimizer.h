// The table of optimizers. A module is a struct of its keys and what they mean:
//   kType          its name in a configuration
//   kBetas         what it makes of its rates' betas
//   keys()         its keys, bound to its members, whose initialisers are the defaults; fault() is a rule between them
//   decay()        which weight decay it is, for people; "" says nothing
//   rates()        what a schedule starts from
//   coefficients() what its operation reads of the step number `applied`, counted from 0, beside the rate
//   states()       what it remembers, in the operation's order, by the names that checkpoints have; "": not kept
//   op()           the operation that changes the weights
// What needs to know more of a tensor than an element says so by further members, which lowering asks for
// (plan/lowering/): trust() of Lars and Lamb, what follows from whole tensors' norms; directions(), orthogonalize()
// and adamw() of Muon.
#pragma once

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

}  // namespace ct::optim
