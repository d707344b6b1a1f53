#include "plan/shards.h"

#include <algorithm>

#include "base/error.h"

namespace ct {

Shards::Shards(const FlatLayout& flat, int ranks) : owned_(static_cast<size_t>(ranks)) {
  std::vector<int64_t> sizes(static_cast<size_t>(ranks), 0);
  size_t grain = 0;
  std::vector<Range> units = flat.units;
  units.push_back(flat.frozen());
  for (const Range& unit : units) {
    // After this unit each rank should have an equal share of everything so far, and so should the first r ranks
    // together: then no rank is off by more than a grain.
    const double share = static_cast<double>(unit.end) / ranks;
    int64_t before = 0;  // what the ranks before this one have
    for (int r = 0; r < ranks; ++r) {
      const auto rank = static_cast<size_t>(r);
      const int64_t begin = grain < flat.grains.size() ? flat.grains[grain].begin : unit.end;
      int64_t end = begin;
      while (grain < flat.grains.size() && flat.grains[grain].begin < unit.end) {
        const int64_t next =
            grain + 1 < flat.grains.size() ? std::min(flat.grains[grain + 1].begin, unit.end) : unit.end;
        const double reached = static_cast<double>(before + sizes[rank]) + static_cast<double>(next - end) / 2;
        if (r + 1 < ranks && reached > share * (r + 1)) break;
        sizes[rank] += next - end;
        end = next;
        ++grain;
      }
      before += sizes[rank];
      if (end == begin) continue;
      if (!owned_[rank].empty() && owned_[rank].back().end == begin)
        owned_[rank].back().end = end;
      else
        owned_[rank].push_back({begin, end});
    }
  }
}

std::vector<Range> Shards::owned(int rank, const Range& within) const {
  std::vector<Range> parts;
  for (const Range& r : owned(rank)) {
    const Range part{std::max(r.begin, within.begin), std::min(r.end, within.end)};
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

int64_t Shards::numel(int rank) const {
  int64_t n = 0;
  for (const Range& r : owned(rank)) n += r.size();
  return n;
}

std::vector<Run> Shards::packed(int rank, const std::vector<Run>& form) const {
  std::vector<Run> runs;
  int64_t byte = 0;
  for (const Range& r : owned(rank))
    for (Run run : intersection(form, r)) {
      run.byte = byte;
      byte = round_up(byte + run.range.size() * static_cast<int64_t>(size_of(run.dtype)), 64);
      runs.push_back(run);
    }
  return runs;
}

int64_t bytes_of(const std::vector<Run>& runs) {
  int64_t bytes = 0;
  for (const Run& r : runs) bytes = std::max(bytes, r.byte + r.range.size() * static_cast<int64_t>(size_of(r.dtype)));
  return bytes;
}

std::vector<ParameterRows> rows_in(const Graph& graph, const FlatLayout& flat, const std::vector<Range>& ranges) {
  std::vector<ParameterRows> rows;
  for (const Range& range : ranges)
    for (size_t i = 0; i < flat.parameters.size(); ++i) {
      const Range& p = flat.parameters[i];
      const Range part{std::max(p.begin, range.begin), std::min(p.end, range.end)};
      if (part.begin >= part.end) continue;
      const int64_t row = graph.parameters()[i].layout.strides[0];
      check((part.begin - p.begin) % row == 0 && (part.end - p.begin) % row == 0, "a range that cuts a row of ",
            graph.parameters()[i].name);
      rows.push_back({i, (part.begin - p.begin) / row, (part.end - p.begin) / row, part});
    }
  return rows;
}

}  // namespace ct
