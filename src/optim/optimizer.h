// The table of optimizers. A module is a struct of its keys and what they mean:
//   kType          its name in a configuration
//   kShards        may an element be updated without knowing its tensor? Then ZeRO divides its state among the ranks
//   keys()         its keys, bound to its members, whose initialisers are the defaults; fault() is a rule between them
//   decay()        which weight decay it is, for people; "" says nothing
//   rates()        what a schedule starts from
//   coefficients() what its operation reads of the step number `applied`, counted from 0, beside the rate
//   states()       what it remembers, in the operation's order, by the names that checkpoints have; "": not kept
//   op()           the operation
#pragma once

#include "optim/adam.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
#include "optim/table.h"

namespace ct::optim {

using Optimizer = std::variant<Sgd, Adam, AdamW, RmsProp>;

/// Names of the vocabulary that this version refuses.
inline const std::vector<std::string> kLaterOptimizers = {
    "Lamb",    "Lion",       "Adagrad", "OneBitAdam", "ZeroOneAdam", "OneBitLamb", "MuAdam",
    "MuAdamW", "MuSGD",      "RAdam",   "NAdam",      "Adamax",      "Adadelta",   "ASGD",
    "Rprop",   "SparseAdam", "LBFGS",   "LARS",       "Muon",        "FusedAdam",  "CPUAdam"};

}  // namespace ct::optim
