// The canonical sum: one tree for any number of ranks.
//
// Leaves 0..S-1 are added in the manner of a binary counter: a new leaf merges with an equal-sized left neighbour, the
// result with its own, and so on; at the end the remaining sums merge from the right. As a recursion:
//   tree(leaves) = the leaf, if there is one; else tree(the first 2^k) + tree(the rest), 2^k the largest power < S.
// The sum of leaves j*2^k .. (j+1)*2^k-1 is itself a node of that tree, so it can be pushed as one subtree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ct {

class TreeSum {
 public:
  /// The largest number of buffers of numel floats that a sum of `leaves` leaves needs in addition to its output:
  /// ceil(log2(leaves)).
  static int level_count(int64_t leaves);

  /// Sums of at most `max_leaves` (< 2^32) leaves of numel floats.
  TreeSum(int64_t numel, int64_t max_leaves);

  int64_t numel() const { return numel_; }
  /// Leaves so far; 0 after finish.
  int64_t pushed() const { return pushed_; }
  /// Bytes of the partial sums allocated so far. Each is allocated when a push first stores it, so pushes of 2^k leaves
  /// at a time need none of the k lowest, and a sum that is finished by its first call needs none.
  size_t bytes() const;

  /// Pushes the next leaves, in index order, each of numel floats. They are read once and may be reused on return.
  void push(std::span<const float* const> leaves) { add(leaves, nullptr); }
  void push(const float* leaf) { push({&leaf, 1}); }

  /// Writes the sum of all pushed leaves; the next push begins a new sum.
  void finish(float* out);
  /// Writes the sum of all pushed leaves and the last ones, in one pass over memory. `out` may be one of them.
  void finish(std::span<const float* const> last, float* out) { last.empty() ? finish(out) : add(last, out); }

 private:
  void add(std::span<const float* const> leaves, float* out);
  void add_block(std::span<const float* const> leaves, float* out, int64_t at, int64_t length);
  float* level(int l);

  int64_t numel_, max_leaves_;
  int64_t pushed_ = 0;  // bit l set: level l contains the sum of 2^l leaves
  std::vector<std::unique_ptr<float[]>> levels_;
};

}  // namespace ct
