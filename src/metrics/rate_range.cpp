#include "metrics/rate_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ct {
namespace {

constexpr int kWidth = 64, kHeight = 14;  // of the picture, without its scales
constexpr double kClear = 3;              // a fall is clear if it is so many times the noise
constexpr double kBegun = 0.1;            // the share of the whole fall after which it has begun

}  // namespace

std::vector<RatePoint> smoothed(std::span<const RatePoint> points, int64_t steps) {
  const double decay = 1 - 10 / static_cast<double>(std::max<int64_t>(steps, 20));
  std::vector<RatePoint> smooth;
  double mean = 0, weight = 0;
  for (const RatePoint& point : points) {
    mean = decay * mean + (1 - decay) * point.loss;
    weight = decay * weight + (1 - decay);
    smooth.push_back({point.rate, mean / weight});
  }
  return smooth;
}

bool has_diverged(std::span<const RatePoint> smooth) {
  if (smooth.empty()) return false;
  const double last = smooth.back().loss;
  return !std::isfinite(last) || last > 4 * std::ranges::min_element(smooth, {}, &RatePoint::loss)->loss;
}

std::optional<RateSuggestion> suggest_rate(std::span<const RatePoint> smooth) {
  std::vector<RatePoint> finite;
  for (const RatePoint& point : smooth)
    if (std::isfinite(point.loss)) finite.push_back(point);
  const auto n = std::ssize(finite);
  if (n < 10) return {};
  const ptrdiff_t tenth = n / 10, reach = std::max<ptrdiff_t>(n / 40, 1);
  const auto lowest = std::ranges::min_element(finite, {}, &RatePoint::loss);

  // The first averages are of few losses; those after them show what is noise.
  const std::span<const RatePoint> plateau =
      std::span(finite).subspan(static_cast<size_t>(tenth), static_cast<size_t>(tenth));
  double level = 0, spread = 0;
  for (const RatePoint& point : plateau) level += point.loss / static_cast<double>(tenth);
  for (const RatePoint& point : plateau) spread = std::max(spread, std::abs(point.loss - level));
  const double fall = level - lowest->loss;
  if (!(fall > kClear * spread) || lowest - finite.begin() < 2 * tenth) return {};

  RateSuggestion found{.lowest = lowest->rate};
  double steepest = 0;
  for (auto at = finite.begin() + tenth + reach; at + reach < finite.end() && at < lowest; ++at) {
    const double slope = (at[reach].loss - at[-reach].loss) / std::log(at[reach].rate / at[-reach].rate);
    const bool falls = at->loss < level - kBegun * fall;
    if (falls && slope < steepest) steepest = slope, found.steepest = at->rate;
  }
  if (found.steepest == 0) return {};
  found.rate = std::max(std::min(found.steepest, found.lowest / 10), finite.front().rate);
  return found;
}

std::vector<std::string> picture(std::span<const RatePoint> smooth, std::optional<double> marked) {
  std::vector<RatePoint> finite;
  for (const RatePoint& point : smooth)
    if (std::isfinite(point.loss)) finite.push_back(point);
  if (finite.size() < 2) return {};
  const double low = std::ranges::min_element(finite, {}, &RatePoint::loss)->loss, high = finite.front().loss;
  const double top = high > low ? high : low + 1, left = std::log(finite.front().rate),
               right = std::log(finite.back().rate);
  const auto column = [&](double rate) {
    const double share = (std::log(rate) - left) / (right - left);
    return static_cast<size_t>(std::lround((kWidth - 1) * std::clamp(share, 0.0, 1.0)));
  };
  std::vector<std::string> rows(kHeight + 1, std::string(kWidth, ' '));
  for (const RatePoint& point : finite)
    if (point.loss <= top)
      rows[static_cast<size_t>(std::lround((kHeight - 1) * (top - point.loss) / (top - low)))][column(point.rate)] =
          '*';
  if (marked) rows.back()[column(*marked)] = '^';
  std::vector<std::string> lines;
  for (size_t row = 0; row < rows.size(); ++row) {
    const bool scale = row == 0 || row + 2 == rows.size();
    lines.push_back(fmt::format("{:>8} {}", scale ? fmt::format("{:.3f} |", row == 0 ? top : low) : "|", rows[row]));
    lines.back().erase(lines.back().find_last_not_of(' ') + 1);
  }
  lines.push_back(fmt::format("{:>8} {:<{}}{:>{}}", "rate", fmt::format("{:.2g}", finite.front().rate), kWidth / 2,
                              fmt::format("{:.2g}", finite.back().rate), kWidth / 2));
  return lines;
}

}  // namespace ct
