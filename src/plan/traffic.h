// What a program moves between ranks, from its own communication operations.
#pragma once

#include "plan/program.h"

namespace ct {

/// A rank's, mean over ranks: an all-reduce of n elements moves 2 n (N-1)/N, the others n (N-1)/N.
struct Moved {
  double elements = 0, bytes = 0;
};

/// One step: micro, accumulation - 1 times, then last and update. Norms are counted apart, as communicators do.
struct StepTraffic {
  Moved training, norms;
};
StepTraffic step_traffic(const LoweredProgram& program);

/// Bytes of what a collective adds up or completes, as every rank then has it, whole or in parts; without padding
/// between the gradients of parameters.
int64_t message_bytes(const LoweredProgram& program, const CommOp& op);

}  // namespace ct
