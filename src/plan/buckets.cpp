#include "plan/buckets.h"

#include <algorithm>

namespace ct {

BucketSize bucket_size(const FlatLayout& flat, int64_t asked) {
  if (asked > 0) return {std::min(asked, flat.changing), std::min(asked, flat.changing)};
  int64_t largest = 0;
  for (const Range& u : flat.units) largest = std::max(largest, u.size());
  return {flat.changing / 8, std::max(largest, flat.changing / 8)};
}

std::vector<Range> unit_groups(const FlatLayout& flat, const BucketSize& bucket, bool backward) {
  std::vector<Range> groups;
  const auto count = static_cast<int64_t>(flat.units.size());
  int64_t size = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t unit = backward ? count - 1 - i : i;
    const int64_t numel = flat.units[static_cast<size_t>(unit)].size();
    if (groups.empty() || size >= bucket.enough || size + numel > bucket.most) {
      groups.push_back({unit, unit + 1});
      size = numel;
    } else {
      Range& group = groups.back();
      (backward ? group.begin : group.end) += backward ? -1 : 1;
      size += numel;
    }
  }
  return groups;
}

std::vector<Range> cut(const FlatLayout& flat, const Range& range, int64_t most) {
  std::vector<Range> parts;
  for (const Range& grain : flat.grains) {
    if (grain.begin < range.begin || grain.begin >= range.end) continue;
    if (!parts.empty() && grain.end - parts.back().begin <= most) continue;
    if (!parts.empty()) parts.back().end = grain.begin;
    parts.push_back({grain.begin, range.end});
  }
  return parts;
}

}  // namespace ct
