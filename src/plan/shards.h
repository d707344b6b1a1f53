// The partition of the flat order over ranks. Each grain (FlatLayout::grains) goes to one rank, unit by unit, so that
// the ranks' parts of every unit and their memory are as equal as grains allow, for any number of ranks.
#pragma once

#include <vector>

#include "plan/flat.h"

namespace ct {

class Shards {
 public:
  Shards() = default;
  Shards(const FlatLayout& flat, int ranks);

  int ranks() const { return static_cast<int>(owned_.size()); }
  /// Disjoint, ascending; the ranges of all ranks tile the flat order. Of frozen parameters, which every rank holds
  /// whole, a rank's ranges are those that it saves.
  const std::vector<Range>& owned(int rank) const { return owned_[static_cast<size_t>(rank)]; }
  std::vector<Range> owned(int rank, const Range& within) const;
  int64_t numel(int rank) const;

  /// A rank's elements packed one after another, in the element types of `form`; every run begins on a cache line.
  std::vector<Run> packed(int rank, const std::vector<Run>& form) const;

 private:
  std::vector<std::vector<Range>> owned_;
};

/// Bytes up to the end of the last run.
int64_t bytes_of(const std::vector<Run>& runs);

/// Rows begin..end of a parameter, and their range in the flat order.
struct ParameterRows {
  size_t parameter;
  int64_t begin, end;
  Range storage;
};
/// The rows of all parameters inside ranges that cut no grain.
std::vector<ParameterRows> rows_in(const Graph& graph, const FlatLayout& flat, const std::vector<Range>& ranges);

}  // namespace ct
