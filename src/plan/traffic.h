// The traffic of a program between ranks, from its communication operations.
#pragma once

#include "plan/program.h"

namespace ct {

/// The traffic of a rank, averaged over ranks: an all-reduce of n elements moves 2 n (N-1)/N, the others n (N-1)/N.
struct Moved {
  double elements = 0, bytes = 0;
};

/// The traffic of one step: micro, accumulation - 1 times, then last and update. Norms are counted separately, as by
/// Communicator.
struct StepTraffic {
  Moved training, norms;
};
StepTraffic step_traffic(const LoweredProgram& program);

/// The bytes of the whole buffer that a collective sums or gathers, without padding between the gradients of
/// parameters.
int64_t message_bytes(const LoweredProgram& program, const CommOp& op);

}  // namespace ct
