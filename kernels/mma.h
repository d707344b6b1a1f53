// Matrix products on tensor cores, and how a warp takes their operands from shared memory. T is bf16 or f16; sums are
// f32. These functions are the only inline PTX of this folder; on the host tests/kernels/on_host/fragments.h has them.
//
// A warp computes D += A B with A [16][16], B [16][8] and D [16][8], whose elements its lanes hold in registers. As
// PTX's mma.m16n8k16 has it, lane l, with g = l / 4 and t = l % 4, has (a register of 16-bit elements has two, the
// lower half first):
//
//   d[0], d[1]   row g, columns 2t, 2t + 1
//   d[2], d[3]   row g + 8, the same columns
//
//   a[0]         row g, columns 2t, 2t + 1
//   a[1]         row g + 8, the same columns
//   a[2], a[3]   the same rows, columns 2t + 8, 2t + 9
//
//   b[0]         column g, rows 2t, 2t + 1
//   b[1]         column g, rows 2t + 8, 2t + 9
//
// So the result of two neighbouring products is, rounded, an A of the next product: as_left(). Kernels should compute
// two at a time, by multiply(): D and B of a Block are [16][16].
//
// The sum of 16 products is added in an order that is the device's own; it is the same in every launch.
#pragma once

#include <type_traits>

#include "element.h"

#ifndef __CUDACC__
#include "fragments.h"
#endif

namespace ct::kernels {

constexpr int kBlock = 16;  // rows and columns

using Block = float[2][4];     // D: columns 0 to 7, then 8 to 15
using Left = uint32_t[4];      // A
using Right = uint32_t[2][2];  // B, as D

/// All lanes of the warp must call it.
template <class T>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(sizeof(T) == 2);
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, __half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  on_host::mma_16x8x16<T>(d, a, b, [](T x) { return to_float(x); });
#endif
}

/// Four matrices [8][8] of shared memory: lane l gives the address of row l % 8 of matrix l / 8, aligned to 16 bytes,
/// and gets of matrix i the elements (g, 2t) and (g, 2t + 1), or if transposed (2t, g) and (2t + 1, g). All lanes of
/// the warp must call it.
template <bool kTransposed, class T>
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const T* row) {
  static_assert(sizeof(T) == 2);
#ifdef __CUDACC__
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
#else
  on_host::load_matrices(kTransposed, to, row);
#endif
}

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }

// Blocks [16][16] of shared memory, from element `at` on, with rows `row` elements apart. No two rows of eight
// neighbours share a bank if a row is 8 elements longer than a multiple of 16: 16 bytes more than one of 32.

/// A of the block.
template <class T>
__device__ __forceinline__ void load_left(Left& a, const T* at, int row) {
  const int lane = lane_of_warp();
  load_matrices<false>(a, at + lane % 16 * row + lane / 16 * 8);
}
/// B of the block.
template <class T>
__device__ __forceinline__ void load_right(Right& b, const T* at, int row) {
  const int lane = lane_of_warp();
  uint32_t of[4];
  load_matrices<true>(of, at + lane % 16 * row + lane / 16 * 8);
  b[0][0] = of[0], b[0][1] = of[1], b[1][0] = of[2], b[1][1] = of[3];
}
/// B of the transposed block: its rows in memory are B's columns.
template <class T>
__device__ __forceinline__ void load_right_of_transposed(Right& b, const T* at, int row) {
  const int lane = lane_of_warp();
  uint32_t of[4];
  load_matrices<false>(of, at + (lane / 16 * 8 + lane % 8) * row + lane / 8 % 2 * 8);
  b[0][0] = of[0], b[0][1] = of[1], b[1][0] = of[2], b[1][1] = of[3];
}

/// d += a b
template <class T>
__device__ __forceinline__ void multiply(Block& d, const Left& a, const Right& b) {
  mma_16x8x16<T>(d[0], a, b[0]);
  mma_16x8x16<T>(d[1], a, b[1]);
}

/// body(n, e, half, column) for the lane's elements d[n][e] of a block, each in row g + 8 half.
template <class Body>
__device__ __forceinline__ void for_elements(Body body) {
  const int t = lane_of_warp() % 4;
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) body(n, e, e / 2, n * 8 + 2 * t + e % 2);
}

/// Two numbers, rounded to the nearest, in one register.
template <class T>
__device__ __forceinline__ uint32_t pair(float low, float high) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 both = __floats2half2_rn(low, high);
    memcpy(&bits, &both, sizeof bits);
  } else {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &both, sizeof bits);
  }
  return bits;
}

/// The block as A of a product, rounded.
template <class T>
__device__ __forceinline__ void as_left(Left& a, const Block& d) {
  a[0] = pair<T>(d[0][0], d[0][1]), a[1] = pair<T>(d[0][2], d[0][3]);
  a[2] = pair<T>(d[1][0], d[1][1]), a[3] = pair<T>(d[1][2], d[1][3]);
}

/// Eight elements of a row of a block, from `column` on.
struct RowPart {
  int row, column;
  uint4 of;
};
/// The block, rounded; each lane gets different elements from those it gave. All lanes of the warp must call it.
template <class T>
__device__ __forceinline__ RowPart row_part_of(const Block& d) {
  const int g = lane_of_warp() / 4, t = lane_of_warp() % 4;
  // Four lanes have two rows, four parts of 8 elements: each lane a register of every part. Lane t gets all of part t.
  uint32_t part[4];
#pragma unroll
  for (int p = 0; p < 4; ++p) part[p] = pair<T>(d[p % 2][p / 2 * 2], d[p % 2][p / 2 * 2 + 1]);
#pragma unroll
  for (int by = 1; by <= 2; by *= 2)
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      if (p & by) continue;
      const bool upper = (t & by) != 0;
      const uint32_t other = __shfl_xor_sync(kAllLanes, upper ? part[p] : part[p + by], by);
      part[p] = upper ? other : part[p];
      part[p + by] = upper ? part[p + by] : other;
    }
  return {g + t / 2 * 8, t % 2 * 8, make_uint4(part[0], part[1], part[2], part[3])};
}

}  // namespace ct::kernels
