// The copy between a value and a ring's slot (copy.h) by threads of a kernel.
#pragma once

#include "copy.h"

namespace ct::kernels {

template <class Unit>
__device__ __forceinline__ void copy_slot_by(const RingCopyArgs& a, int turn, int thread, int threads) {
  const auto units = static_cast<int>(a.bytes / static_cast<int>(sizeof(Unit)));
  auto* value = static_cast<Unit*>(a.value);
  Unit* slot = static_cast<Unit*>(a.ring) + int64_t{turn} * units;
  const Unit* from = a.to_ring ? value : slot;
  Unit* to = a.to_ring ? slot : value;
#pragma unroll 1
  for (int i = thread; i < units; i += threads) to[i] = from[i];
}

/// Every one of `threads` threads calls it, with its number and the same turn, *a.turn.
__device__ __forceinline__ void copy_slot(const RingCopyArgs& a, int turn, int thread, int threads) {
  if ((reinterpret_cast<uintptr_t>(a.value) | reinterpret_cast<uintptr_t>(a.ring) | a.bytes) % 16 == 0)
    copy_slot_by<uint4>(a, turn, thread, threads);
  else
    copy_slot_by<unsigned char>(a, turn, thread, threads);
}

/// One of them calls it when all have read the turn.
__device__ __forceinline__ void end_turn(const RingCopyArgs& a, int turn) {
  *a.turn = turn + 1 == a.slots ? 0 : turn + 1;
}

/// All of the copies, by a warp each. Every thread of the block calls it, after what is copied is complete.
__device__ __forceinline__ void copy_slots_by_warps(const RingCopies& rings) {
  const int lane = threadIdx.x % kWarp;
  for (int i = threadIdx.x / kWarp; i < rings.count; i += blockDim.x / kWarp) {
    const int turn = *rings.at[i].turn;
    copy_slot(rings.at[i], turn, lane, kWarp);
    __syncwarp();
    if (lane == 0) end_turn(rings.at[i], turn);
  }
}

}  // namespace ct::kernels
