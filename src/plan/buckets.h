// Buckets: parts of the flat order that communicate together.
#pragma once

#include <vector>

#include "plan/flat.h"

namespace ct {

/// The size of a bucket in elements.
struct BucketSize {
  int64_t enough;  // a bucket of at least this size is complete
  int64_t most;
};
/// The size for `asked` elements, at most the whole model; 0: an eighth of the model is enough, and the largest unit
/// fits.
BucketSize bucket_size(const FlatLayout& flat, int64_t asked);
/// Groups of consecutive units, one bucket each; a unit larger than a bucket is a separate group. As ranges of unit
/// indices, from the first to the last unit, or (`backward`) collected from the last to the first.
std::vector<Range> unit_groups(const FlatLayout& flat, const BucketSize& bucket, bool backward);
/// Cuts a range of the flat order between grains into parts of at most `most` elements (not counting pads after the
/// last grain), if grains are that small.
std::vector<Range> cut(const FlatLayout& flat, const Range& range, int64_t most);

}  // namespace ct
