#include "model/resample_positions.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ct {
namespace {

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? kA * (((x - 5) * x + 8) * x - 4) : 0;
}

/// What each of `from` equal parts of a line counts at the middle of each of `to` parts.
std::vector<std::vector<double>> shares(int64_t from, int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to), wide = std::max(step, 1.0);
  std::vector<std::vector<double>> all;
  for (int64_t i = 0; i < to; ++i) {
    std::vector<double>& of_part = all.emplace_back();
    double sum = 0;
    for (int64_t j = 0; j < from; ++j) {
      const double distance = static_cast<double>(j) + 0.5 - (static_cast<double>(i) + 0.5) * step;
      sum += of_part.emplace_back(bicubic(distance / wide));
    }
    for (double& share : of_part) share /= sum;
  }
  return all;
}

/// [outer][from][inner] -> [outer][to][inner]
std::vector<double> resample(const std::vector<double>& values, int64_t outer, int64_t from, int64_t to) {
  const auto inner = static_cast<int64_t>(values.size()) / (outer * from);
  const auto parts = shares(from, to);
  std::vector<double> result;
  for (int64_t o = 0; o < outer; ++o)
    for (const std::vector<double>& part : parts)
      for (int64_t i = 0; i < inner; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < from; ++j)
          sum += part[static_cast<size_t>(j)] * values[static_cast<size_t>((o * from + j) * inner + i)];
        result.push_back(sum);
      }
  return result;
}

}  // namespace

std::optional<Positions> positions_of(const Graph& graph) {
  TokenGrid patches;
  for (const ComputeOp& op : graph.ops()) {
    if (const auto* cut = std::get_if<Patches>(&op)) {
      const Shape& images = graph.shape(cut->images);
      patches = {images[2] / cut->patch, images[3] / cut->patch};
    }
    const auto* tokens = std::get_if<Tokens>(&op);
    if (!tokens) continue;
    const Shape& x = graph.shape(tokens->x);
    const TokenGrid grid = x.rank() == 4 ? TokenGrid{x[1], x[2]} : patches;
    const auto at = std::ranges::find(graph.parameters(), tokens->positions, &Parameter::value);
    return Positions{static_cast<size_t>(at - graph.parameters().begin()), at->shape[1] - grid.tokens(), grid};
  }
  return std::nullopt;
}

std::vector<float> resample_positions(std::span<const float> values, int64_t before, TokenGrid from, TokenGrid to) {
  const auto tokens = before + from.tokens(), all = static_cast<int64_t>(values.size());
  check(tokens > 0 && all % tokens == 0, all, " numbers are not embeddings of ", tokens, " tokens");
  const auto kept = values.first(static_cast<size_t>(before * (all / tokens)));
  const std::vector<double> grid(values.begin() + static_cast<ptrdiff_t>(kept.size()), values.end());
  std::vector<float> result(kept.begin(), kept.end());
  for (const double x : resample(resample(grid, from.height, from.width, to.width), 1, from.height, to.height))
    result.push_back(static_cast<float>(x));
  return result;
}

}  // namespace ct
