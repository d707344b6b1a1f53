#include <algorithm>
#include <climits>

#include "copy.h"
#include "element.h"
#include "ring_slot.h"

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

/// One block per ring.
__global__ void __launch_bounds__(kRingThreads) ring_copies_kernel(RingCopies rings) {
  wait_for_previous();
  const RingCopyArgs& a = rings.at[blockIdx.x];
  const int turn = *a.turn;
  copy_slot(a, turn, static_cast<int>(threadIdx.x), kRingThreads);
  __syncthreads();  // all threads have read the turn
  if (threadIdx.x == 0) end_turn(a, turn);
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
  RingCopies rings = {.count = static_cast<int>(copies.size())};
  std::copy(copies.begin(), copies.end(), rings.at);
  const Grid grid{.blocks = static_cast<unsigned>(copies.size()), .threads = kRingThreads};
  return launch_early(ring_copies_kernel, grid, stream, rings);
}

}  // namespace ct::kernels
