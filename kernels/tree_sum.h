// Sums of f32 whose order is promised: pieces one after the other, and the canonical tree over a step's leaves, which
// is the same for any number of ranks. Each addition is rounded on its own; an element's sum depends on that element
// alone. 16-byte accesses where all operands are aligned to as many. Everything runs in the stream. Errors: of the
// launch; cudaErrorInvalidValue where an argument is out of its range.
#pragma once

#include "launch.h"

namespace ct::kernels {

constexpr int kMaxTerms = 256;

/// out[i] = ((terms[0][i] + terms[1][i]) + terms[2][i]) + ... for i < n. out may be one of the terms, otherwise nothing
/// overlaps. Moves 4 (count + 1) bytes an element.
struct SumInOrderArgs {
  const float* const* terms;  // on the host, free for reuse on return
  int count;                  // 1 to kMaxTerms
  float* out;
  int64_t n;
};
cudaError_t sum_in_order(const SumInOrderArgs& args, cudaStream_t stream);

/// One leaf of a sum that is made as a binary counter counts: it merges with an equal-sized neighbour on its left, the
/// result with its own, and so on; between calls level l holds the sum of 2^l leaves where bit l of the number of
/// leaves pushed is set. When the last leaf comes, all that is left merges from the right,
///   tree(leaves) = the leaf, if there is one; else tree(the first 2^k) + tree(the rest), 2^k the largest power < S,
/// and the next sum begins with leaf 0. S leaves need bit_width(S - 1) levels. A single level for S > 2 says that the
/// order does not matter: it holds the sum so far, and leaves are added as they come.
///
/// The leaf's number lies in device memory, where count_leaf() counts it, so that a recorded launch can be replayed:
/// which levels merge is decided on the device, the same for all threads. Nothing there checks that the levels suffice.
/// Moves 4 (m + 2) bytes an element where m levels merge: 12 on average, as half of all leaves merge with nothing; 0
/// where a sum of one leaf (no levels) stays in its place.
constexpr int kMaxLevels = 16;
struct TreePushArgs {
  const float* values;     // of the leaf; untouched, unless it is `out`
  const int32_t* counter;  // on the device: the leaf's number in its sum, from 0
  bool last;               // of its sum
  float* const* levels;    // on the host, free for reuse on return
  int level_count;         // at most kMaxLevels; 0 only with `last`
  float* out = nullptr;    // with `last`: where the sum goes; may be `values`
  int64_t n;
};
cudaError_t tree_push(const TreePushArgs& args, cudaStream_t stream);

/// Counts a leaf after its pushes: adds one to the counter, or sets it to 0 after the last leaf. Moves 8 bytes.
cudaError_t count_leaf(int32_t* counter, bool last, cudaStream_t stream);

}  // namespace ct::kernels
