#include <algorithm>
#include <climits>

#include "copy.h"
#include "element.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kDepth = 4;  // loads in flight for each thread
constexpr int64_t kTile = int64_t{kThreads} * kDepth;

template <class Unit>
__global__ void __launch_bounds__(kThreads) copy_units(const Unit* from, Unit* to, int64_t units) {
  const int64_t first = blockIdx.x * kTile + threadIdx.x;
  Unit held[kDepth];
  for (int k = 0; k < kDepth; ++k)
    if (first + k * kThreads < units) held[k] = from[first + k * kThreads];
  for (int k = 0; k < kDepth; ++k)
    if (first + k * kThreads < units) to[first + k * kThreads] = held[k];
}

template <class Unit>
cudaError_t copy_units_of(const unsigned char* from, unsigned char* to, int64_t units, cudaStream_t stream) {
  const int64_t blocks = divide_up(units, kTile);
  if (blocks > 0x7fffffff) return cudaErrorInvalidValue;
  return launch(copy_units<Unit>, {.blocks = static_cast<unsigned>(blocks), .threads = kThreads}, stream,
                reinterpret_cast<const Unit*>(from), reinterpret_cast<Unit*>(to), units);
}

constexpr int kRingThreads = 1024;

struct Rings {
  RingCopyArgs at[kMostRings];
};

template <class Unit>
__device__ __forceinline__ void copy_slot(const RingCopyArgs& a, int turn) {
  const auto units = static_cast<int>(a.bytes / static_cast<int>(sizeof(Unit)));
  auto* value = static_cast<Unit*>(a.value);
  Unit* slot = static_cast<Unit*>(a.ring) + int64_t{turn} * units;
  const Unit* from = a.to_ring ? value : slot;
  Unit* to = a.to_ring ? slot : value;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < units; i += kRingThreads) to[i] = from[i];
}

/// One block per ring.
__global__ void __launch_bounds__(kRingThreads) ring_copies_kernel(Rings rings) {
  wait_for_previous();
  const RingCopyArgs& a = rings.at[blockIdx.x];
  const int turn = *a.turn;
  if ((reinterpret_cast<uintptr_t>(a.value) | reinterpret_cast<uintptr_t>(a.ring) | a.bytes) % 16 == 0)
    copy_slot<uint4>(a, turn);
  else
    copy_slot<unsigned char>(a, turn);
  __syncthreads();  // all threads have read the turn
  if (threadIdx.x == 0) *a.turn = turn + 1 == a.slots ? 0 : turn + 1;
}

}  // namespace

cudaError_t copy(const CopyArgs& args, cudaStream_t stream) {
  if (args.bytes < 0) return cudaErrorInvalidValue;
  const auto* from = static_cast<const unsigned char*>(args.from);
  auto* to = static_cast<unsigned char*>(args.to);
  const int64_t packs = aligned_16(from, to) ? args.bytes / 16 : 0;
  if (const cudaError_t error = copy_units_of<uint4>(from, to, packs, stream); error != cudaSuccess) return error;
  return copy_units_of<unsigned char>(from + 16 * packs, to + 16 * packs, args.bytes - 16 * packs, stream);
}

cudaError_t ring_copies(std::span<const RingCopyArgs> copies, cudaStream_t stream) {
  if (copies.size() > kMostRings) return cudaErrorInvalidValue;
  for (const RingCopyArgs& a : copies)
    if (a.bytes < 0 || a.bytes > INT_MAX || a.slots < 1) return cudaErrorInvalidValue;
  Rings rings = {};
  std::copy(copies.begin(), copies.end(), rings.at);
  const Grid grid{.blocks = static_cast<unsigned>(copies.size()), .threads = kRingThreads};
  return launch_early(ring_copies_kernel, grid, stream, rings);
}

}  // namespace ct::kernels
