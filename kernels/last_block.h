// The last block of a group to end, which goes on with what the group has written. Which block that is differs from
// launch to launch, so what it computes must not depend on who it is or on the order of arrival.
#pragma once

#include "launch.h"
#include "tickets.h"

namespace ct::kernels {

/// Is this the last of `blocks` blocks to come here? Then it sees what all of them have written before, if it reads by
/// volatile: a cache near the block may hold older values. All threads of the block call it and get the same answer.
/// Overwrites the first 4 bytes of shared memory; all threads have passed a barrier before and after.
__device__ __forceinline__ bool is_last_block(unsigned* ticket, unsigned blocks) {
  auto* answer = shared_memory<int>();
  __syncthreads();  // the block has written everything
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();  // what the block has written comes before its count
    *answer = atomicAdd(ticket, 1u) == blocks - 1;
    if (*answer) *ticket = 0;
    __threadfence();  // what the others have written comes before their counts
  }
  __syncthreads();
  const bool is_last = *answer;
  __syncthreads();
  return is_last;
}

}  // namespace ct::kernels
