#include "plan/flat.h"

#include <algorithm>

#include "base/error.h"

namespace ct {
namespace {

enum class Part : uint8_t { weights, vectors, statistics };

Part part_of(const Parameter& p) {
  return p.statistic ? Part::statistics : p.is_vector() ? Part::vectors : Part::weights;
}

void add_run(FlatLayout& flat, const Range& range, DType dtype) {
  if (range.size() == 0) return;
  if (!flat.runs.empty() && flat.runs.back().dtype == dtype) {
    flat.runs.back().range.end = range.end;
  } else {
    flat.compute_bytes = round_up(flat.compute_bytes, 64);
    flat.runs.push_back({range, dtype, flat.compute_bytes});
  }
  flat.compute_bytes += range.size() * static_cast<int64_t>(size_of(dtype));
}

}  // namespace

FlatLayout flatten_parameters(const Graph& graph) {
  FlatLayout flat;
  const auto& parameters = graph.parameters();
  flat.parameters.resize(parameters.size());
  const auto add = [&](size_t unit, bool frozen) {
    for (const Part part : {Part::weights, Part::vectors, Part::statistics})
      for (size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& p = parameters[i];
        if (p.unit != static_cast<int>(unit) || p.frozen != frozen || part_of(p) != part) continue;
        const Range range{flat.numel, flat.numel + p.layout.stored};
        flat.parameters[i] = range;
        const int64_t row = p.layout.strides[0], grain = std::max<int64_t>(1, kChunk / row) * row;
        for (int64_t at = range.begin; at < range.end; at += grain) {
          const Range rows{at, std::min(at + grain, range.end)};
          flat.grains.push_back(rows);
          for (int64_t c = rows.begin; c < rows.end && p.learns(); c += kChunk)
            flat.chunks.push_back({c, std::min(c + kChunk, rows.end)});
        }
        flat.numel = round_up(range.end, kRowPad);
        add_run(flat, {range.begin, flat.numel}, graph[p.value].dtype);
      }
  };
  for (size_t unit = 0; unit < graph.units().size(); ++unit) {
    const int64_t begin = flat.numel;
    add(unit, /*frozen=*/false);
    flat.units.push_back({begin, flat.numel});
  }
  flat.changing = flat.numel;
  for (size_t unit = 0; unit < graph.units().size(); ++unit) add(unit, /*frozen=*/true);
  return flat;
}

std::vector<UpdateRange> update_ranges(const Graph& graph, const FlatLayout& flat,
                                       const std::vector<optim::ParameterTreatment>& treatments, Tensors tensors) {
  std::vector<UpdateRange> all;
  for (size_t i = 0; i < flat.parameters.size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    if (p.frozen) continue;
    const Range padded{flat.parameters[i].begin, round_up(flat.parameters[i].end, kRowPad)};
    const int64_t tensor = tensors == Tensors::apart && !p.statistic ? static_cast<int64_t>(i) : -1;
    int64_t begin = padded.begin;
    for (const auto& [rows, treatment] : treatments[i].first_rows) {
      const int64_t end = padded.begin + rows * p.layout.strides.front();
      all.push_back({{begin, end}, treatment, p.statistic, p.momentum, tensor});
      begin = end;
    }
    all.push_back({{begin, padded.end}, treatments[i], p.statistic, p.momentum, tensor});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
  std::vector<UpdateRange> merged;
  for (const UpdateRange& r : all) {
    const bool same = !merged.empty() && merged.back().treatment == r.treatment &&
                      merged.back().statistic == r.statistic && merged.back().momentum == r.momentum &&
                      merged.back().tensor == r.tensor;
    if (same)
      merged.back().range.end = r.range.end;
    else
      merged.push_back(r);
  }
  return merged;
}

std::vector<Range> chunks_of_parameters(const FlatLayout& flat) {
  std::vector<Range> numbers;
  for (const Range& p : flat.parameters) {
    const auto number = [&](int64_t element) {  // of the first chunk that begins there or later
      return std::ranges::lower_bound(flat.chunks, element, {}, &Range::begin) - flat.chunks.begin();
    };
    numbers.push_back({number(p.begin), number(p.end)});
  }
  return numbers;
}

std::vector<Run> intersection(const std::vector<Run>& runs, const Range& range) {
  std::vector<Run> clipped;
  for (const Run& run : runs) {
    const Range r{std::max(run.range.begin, range.begin), std::min(run.range.end, range.end)};
    if (r.begin >= r.end) continue;
    const auto bytes = static_cast<int64_t>(size_of(run.dtype));
    clipped.push_back({r, run.dtype, run.byte + (r.begin - run.range.begin) * bytes});
  }
  return clipped;
}

int64_t byte_of(const std::vector<Run>& runs, int64_t element) {
  const auto after = std::upper_bound(runs.begin(), runs.end(), element,
                                      [](int64_t e, const Run& run) { return e < run.range.begin; });
  check(after != runs.begin() && element < (after - 1)->range.end, "element ", element, " is in no run");
  const Run& run = *(after - 1);
  return run.byte + (element - run.range.begin) * static_cast<int64_t>(size_of(run.dtype));
}

}  // namespace ct
