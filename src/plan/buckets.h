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
/// The size for `asked` elements, at most all that changes in training. For 0, an eighth of that is enough, and `most`
/// is the largest unit if that is larger.
BucketSize bucket_size(const FlatLayout& flat, int64_t asked);
/// Groups of consecutive units, one bucket each, as ranges of unit indices; a unit larger than a bucket is a separate
/// group. Units are collected from the first to the last or, if `backward`, from the last to the first.
std::vector<Range> unit_groups(const FlatLayout& flat, const BucketSize& bucket, bool backward);
/// Cuts a range of the flat order between grains into parts of at most `most` elements, not counting pads after the
/// last grain. A larger grain is a part of its own.
std::vector<Range> cut(const FlatLayout& flat, const Range& range, int64_t most);

}  // namespace ct
