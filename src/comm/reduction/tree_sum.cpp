#include "comm/reduction/tree_sum.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "comm/reduction/chain_sum.h"

namespace ct {
namespace {

constexpr int kMaxLevels = 33;

bool bit(int64_t value, int l) { return (value >> l) & 1; }

/// act(l) for each bit l of value that is set, lowest first.
template <class Act>
void for_bits(int64_t value, Act act) {
  for (auto bits = static_cast<uint64_t>(value); bits != 0; bits &= bits - 1) act(std::countr_zero(bits));
}

}  // namespace

int TreeSum::level_count(int64_t leaves) {
  check(leaves >= 1 && leaves < int64_t{1} << (kMaxLevels - 1), "a tree of ", leaves, " leaves");
  return std::bit_width(static_cast<uint64_t>(leaves - 1));
}

TreeSum::TreeSum(int64_t numel, int64_t max_leaves) : numel_(numel), max_leaves_(max_leaves) {
  level_count(max_leaves);
}

float* TreeSum::level(int l) {
  // Only a full tree of 2^k leaves reaches level k; it takes the place of its left half, which is its last term.
  const auto at = static_cast<size_t>(std::min(l, std::max(1, level_count(max_leaves_)) - 1));
  if (levels_.size() <= at) levels_.resize(at + 1);
  if (!levels_[at]) levels_[at] = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(numel_));
  return levels_[at].get();
}

size_t TreeSum::bytes() const {
  const auto made =
      static_cast<size_t>(std::ranges::count_if(levels_, [](const auto& level) { return level != nullptr; }));
  return made * static_cast<size_t>(numel_) * sizeof(float);
}

void TreeSum::add(std::span<const float* const> leaves, float* out) {
  const int64_t end = pushed_ + static_cast<int64_t>(leaves.size());
  check(end <= max_leaves_, "leaf ", end - 1, " pushed to a tree of ", max_leaves_);
  check(end > 0, "a sum of no leaves");
  // Block by block through the whole tree, so that partial sums which do not outlive this call never leave the cache.
  for (int64_t at = 0; at < numel_; at += kChainBlock) {
    add_block(leaves, out, at, std::min(kChainBlock, numel_ - at));
  }
  pushed_ = out == nullptr ? end : 0;
}

void TreeSum::add_block(std::span<const float* const> leaves, float* out, int64_t at, int64_t length) {
  alignas(64) float scratch[kMaxLevels][kChainBlock];
  std::array<const float*, kMaxLevels>
      node_at{};  // the counter: node_at[l] holds 2^l leaves where bit l of `count` is set
  std::array<const float*, kMaxLevels + 1> terms;
  int64_t count = pushed_;
  const int64_t end = pushed_ + static_cast<int64_t>(leaves.size());
  for_bits(count, [&](int l) { node_at[l] = level(l) + at; });
  for (size_t i = 0; i < leaves.size(); ++i) {
    int l = 0;
    size_t n = 0;
    terms[n++] = leaves[i] + at;
    for (; bit(count, l); ++l) terms[n++] = node_at[l];
    ++count;
    if (out != nullptr && i + 1 == leaves.size()) {
      for_bits(count >> (l + 1), [&](int above) { terms[n++] = node_at[l + 1 + above]; });
      chain_sum({terms.data(), n}, out + at, length);
      return;
    }
    // Node [count - 2^l, count) outlives this call exactly if it is the level-l node of the counter at `end`.
    const bool stays = out == nullptr && count >> l == end >> l;
    if (n == 1 && !stays) {
      node_at[l] = terms[0];
      continue;
    }
    float* sum = stays ? level(l) + at : scratch[l];
    chain_sum({terms.data(), n}, sum, length);
    node_at[l] = sum;
  }
}

void TreeSum::finish(float* out) {
  check(pushed_ > 0, "a sum of no leaves");
  std::array<const float*, kMaxLevels> terms;
  for (int64_t at = 0; at < numel_; at += kChainBlock) {
    size_t n = 0;
    for_bits(pushed_, [&](int l) { terms[n++] = level(l) + at; });
    chain_sum({terms.data(), n}, out + at, std::min(kChainBlock, numel_ - at));
  }
  pushed_ = 0;
}

}  // namespace ct
