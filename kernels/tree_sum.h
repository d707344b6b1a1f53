// Sums of f32 in a guaranteed order: terms one after another, and the canonical tree over a step's leaves, which is the
// same on any number of ranks. Each addition is rounded; an element's sum depends on that element alone. Accesses are
// 16 bytes wide if all operands are aligned to 16 bytes. Everything runs in the stream. Functions return errors of the
// launch, and cudaErrorInvalidValue for an argument out of range.
#pragma once

#include "launch.h"

namespace ct::kernels {

constexpr int kMaxTerms = 256;

/// out[i] = ((terms[0][i] + terms[1][i]) + terms[2][i]) + ... for i < n. out may be one of the terms; otherwise
/// operands must not overlap. Moves 4 (count + 1) bytes per element.
struct SumInOrderArgs {
  const float* const* terms;  // on the host; may be reused on return
  int count;                  // 1 to kMaxTerms
  float* out;
  int64_t n;
};
cudaError_t sum_in_order(const SumInOrderArgs& args, cudaStream_t stream);

/// Adds one leaf to a sum in the manner of a binary counter: the leaf merges with an equal-sized left neighbour, the
/// result with its own, and so on. Between calls level l contains the sum of 2^l leaves if bit l of the number of
/// pushed leaves is set. After the last leaf all levels merge from the right, which gives
///   tree(S leaves) = the leaf if S = 1; else tree(the first 2^k) + tree(the rest), 2^k the largest power < S,
/// and the next sum begins with leaf 0. S leaves need bit_width(S - 1) levels. A single level for S > 2 means that the
/// order does not matter: it contains the sum so far, and leaves are added in the order of their pushes.
///
/// The leaf's number is in device memory, and count_leaf() increments it, so a recorded launch can be replayed: the
/// device decides which levels merge, with the same decision in all threads. The kernel does not check that there are
/// enough levels. If m levels merge it moves 4 (m + 2) bytes per element: 12 on average, because half of all leaves
/// merge with nothing. A sum of one leaf (no levels) with out = values moves 0 bytes.
constexpr int kMaxLevels = 16;
struct TreePushArgs {
  const float* values;     // of the leaf; not changed, unless it is `out`
  const int32_t* counter;  // on the device: the leaf's number in its sum, from 0
  bool last;               // is this the last leaf of its sum?
  float* const* levels;    // on the host; may be reused on return
  int level_count;         // at most kMaxLevels; 0 only with `last`
  float* out = nullptr;    // with `last`: receives the sum; may be `values`
  int64_t n;
};
cudaError_t tree_push(const TreePushArgs& args, cudaStream_t stream);

/// Counts a leaf after its pushes: adds one to the counter, or sets it to 0 after the last leaf. Moves 8 bytes.
cudaError_t count_leaf(int32_t* counter, bool last, cudaStream_t stream);

}  // namespace ct::kernels
