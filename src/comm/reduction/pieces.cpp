#include "comm/reduction/pieces.h"

#include <algorithm>

#include "base/error.h"

namespace ct {

int64_t elements_of(const std::vector<Piece>& pieces) {
  int64_t elements = 0;
  for (const Piece& piece : pieces) elements += piece.elements;
  return elements;
}

int64_t bytes_of(const std::vector<Piece>& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.elements * piece.element_bytes;
  return bytes;
}

Ownership tidy(Ownership pieces, int ranks, size_t whole_bytes, bool in_place) {
  check(pieces.size() == static_cast<size_t>(ranks), "pieces of ", pieces.size(), " ranks, not of ", ranks);
  std::vector<Piece> all;
  for (std::vector<Piece>& own : pieces) {
    std::ranges::sort(own, {}, &Piece::whole);
    std::vector<Piece> joined;
    for (const Piece& piece : own) {
      check(piece.elements >= 0 && piece.element_bytes > 0 && piece.whole >= 0 && piece.shard >= 0 &&
                piece.whole + piece.elements * piece.element_bytes <= static_cast<int64_t>(whole_bytes),
            "a piece of ", piece.elements, " elements at byte ", piece.whole, " of ", whole_bytes);
      check(!in_place || piece.whole == piece.shard, "a piece that is not at its place in a whole that is the shard");
      if (piece.elements == 0) continue;
      if (!joined.empty()) {
        Piece& left = joined.back();
        const int64_t length = left.elements * left.element_bytes;
        if (left.whole + length == piece.whole && left.shard + length == piece.shard &&
            left.element_bytes == piece.element_bytes) {
          left.elements += piece.elements;
          continue;
        }
      }
      joined.push_back(piece);
    }
    own = std::move(joined);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(all, {}, &Piece::whole);
  for (size_t i = 1; i < all.size(); ++i) {
    check(all[i - 1].whole + all[i - 1].elements * all[i - 1].element_bytes <= all[i].whole, "byte ", all[i].whole,
          " of a whole is owned twice");
  }
  return pieces;
}

void check_inside(const Ownership& pieces, size_t shard_bytes) {
  for (const std::vector<Piece>& own : pieces) {
    for (const Piece& piece : own) {
      check(piece.shard + piece.elements * piece.element_bytes <= static_cast<int64_t>(shard_bytes), "a piece of ",
            piece.elements, " elements at byte ", piece.shard, " of a shard of ", shard_bytes);
    }
  }
}

Ownership even_slices(int ranks, int64_t numel) {
  Ownership slices;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
  // Whole cache lines, so that no line has two writers where ranks share memory.
  constexpr int64_t kLine = 64 / kBytes;
  const int64_t lines = (numel + kLine - 1) / kLine;
  for (int64_t r = 0; r < ranks; ++r) {
    const int64_t begin = std::min(numel, lines * r / ranks * kLine);
    const int64_t end = std::min(numel, lines * (r + 1) / ranks * kLine);
    slices.push_back({{.whole = begin * kBytes, .shard = begin * kBytes, .elements = end - begin}});
  }
  return slices;
}

PieceSums::PieceSums(const std::vector<Piece>& pieces, float* shard, int ranks, int64_t leaves, SumOrder order)
    : leaves_(static_cast<size_t>(ranks)), order_(order) {
  int64_t packed = 0;
  for (const Piece& piece : pieces) {
    check(
        piece.element_bytes == sizeof(float) && piece.whole % alignof(float) == 0 && piece.shard % alignof(float) == 0,
        "a sum of elements that are not f32");
    float* out = shard + piece.shard / static_cast<int64_t>(sizeof(float));
    sums_.push_back({piece, packed, out, TreeSum(piece.elements, leaves), {}});
    packed += piece.elements;
  }
}

void PieceSums::add(const FindLeaf& leaf, bool last) {
  const size_t ranks = leaves_.size();
  for (Sum& sum : sums_) {
    for (size_t r = 0; r < ranks; ++r) leaves_[r] = leaf(static_cast<int>(r), sum.piece, sum.packed);
    if (order_ == SumOrder::canonical) {
      last ? sum.tree.finish(leaves_, sum.out) : sum.tree.push(leaves_);
      continue;
    }
    if (!last) sum.partial.resize(static_cast<size_t>(sum.piece.elements));
    if (begun_) leaves_.push_back(sum.partial.data());
    TreeSum(sum.piece.elements, static_cast<int64_t>(leaves_.size()))
        .finish(leaves_, last ? sum.out : sum.partial.data());
    leaves_.resize(ranks);
  }
  begun_ = !last;
}

size_t PieceSums::bytes() const {
  size_t bytes = 0;
  for (const Sum& sum : sums_) bytes += sum.tree.bytes() + sum.partial.size() * sizeof(float);
  return bytes;
}

Traffic traffic_of_all_reduce(const Ownership& slices, int rank) {
  const Traffic reduce = traffic_of_reduce_scatter(slices, rank), gather = traffic_of_all_gather(slices, rank);
  return {reduce.elements + gather.elements, reduce.bytes + gather.bytes};
}

Traffic traffic_of_reduce_scatter(const Ownership& pieces, int rank) {
  const auto peers = static_cast<int64_t>(pieces.size()) - 1;
  const std::vector<Piece>& mine = pieces[static_cast<size_t>(rank)];
  return {peers * elements_of(mine), peers * bytes_of(mine)};
}

Traffic traffic_of_all_gather(const Ownership& pieces, int rank) {
  Traffic traffic;
  for (size_t r = 0; r < pieces.size(); ++r) {
    if (r == static_cast<size_t>(rank)) continue;
    traffic.elements += elements_of(pieces[r]);
    traffic.bytes += bytes_of(pieces[r]);
  }
  return traffic;
}

}  // namespace ct
