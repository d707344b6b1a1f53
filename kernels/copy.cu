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

}  // namespace

cudaError_t copy(const CopyArgs& args, cudaStream_t stream) {
  if (args.bytes < 0) return cudaErrorInvalidValue;
  const auto* from = static_cast<const unsigned char*>(args.from);
  auto* to = static_cast<unsigned char*>(args.to);
  const int64_t packs = aligned_16(from, to) ? args.bytes / 16 : 0;
  if (const cudaError_t error = copy_units_of<uint4>(from, to, packs, stream); error != cudaSuccess) return error;
  return copy_units_of<unsigned char>(from + 16 * packs, to + 16 * packs, args.bytes - 16 * packs, stream);
}

}  // namespace ct::kernels
