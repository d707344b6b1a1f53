#include "plan/flat.h"

#include <algorithm>

namespace ct {

FlatLayout flatten_parameters(const Graph& graph) {
  FlatLayout flat;
  const auto& parameters = graph.parameters();
  flat.parameters.resize(parameters.size());
  for (size_t unit = 0; unit < graph.units().size(); ++unit) {
    const int64_t begin = flat.numel;
    for (const bool vectors : {false, true})
      for (size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& p = parameters[i];
        if (p.unit != static_cast<int>(unit) || p.is_vector() != vectors) continue;
        const Range range{flat.numel, flat.numel + p.layout.stored};
        flat.parameters[i] = range;
        for (int64_t at = range.begin; at < range.end; at += kChunk)
          flat.chunks.push_back({at, std::min(at + kChunk, range.end)});
        flat.numel = round_up(range.end, kRowPad);
      }
    flat.units.push_back({begin, flat.numel});
  }
  return flat;
}

std::vector<int64_t> shard_bounds(const FlatLayout& flat, int ranks) {
  std::vector<int64_t> bounds{0};
  size_t chunk = 0;
  for (int r = 1; r < ranks; ++r) {
    const int64_t ideal = flat.numel * r / ranks;
    while (chunk < flat.chunks.size() && flat.chunks[chunk].begin < ideal) ++chunk;
    bounds.push_back(chunk < flat.chunks.size() ? flat.chunks[chunk].begin : flat.numel);
  }
  bounds.push_back(flat.numel);
  return bounds;
}

std::vector<DecayRange> decay_ranges(const Graph& graph, const FlatLayout& flat, bool decay_vectors) {
  if (decay_vectors) return {{{0, flat.numel}, true}};
  std::vector<std::pair<Range, bool>> order;
  for (size_t i = 0; i < flat.parameters.size(); ++i)
    order.push_back({flat.parameters[i], !graph.parameters()[i].is_vector()});
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  std::vector<DecayRange> ranges;
  for (const auto& [range, decays] : order) {
    const Range padded{range.begin, round_up(range.end, kRowPad)};
    if (!ranges.empty() && ranges.back().decays == decays)
      ranges.back().range.end = padded.end;
    else
      ranges.push_back({padded, decays});
  }
  return ranges;
}

}  // namespace ct
