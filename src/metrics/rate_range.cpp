#include "metrics/rate_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ct {
namespace {

constexpr int kWidth = 64, kHeight = 14;  // of the picture, without its scales

}  // namespace

std::vector<RatePoint> smoothed(std::span<const RatePoint> points) {
  constexpr double kDecay = 0.9;
  std::vector<RatePoint> smooth;
  double mean = 0, weight = 0;
  for (const RatePoint& point : points) {
    mean = kDecay * mean + (1 - kDecay) * point.loss;
    weight = kDecay * weight + (1 - kDecay);
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
  constexpr ptrdiff_t kReach = 2;             // points on both sides of a slope
  constexpr size_t kFewest = 10, kFirst = 5;  // the first averages are of few losses
  std::vector<RatePoint> finite;
  for (const RatePoint& point : smooth)
    if (std::isfinite(point.loss)) finite.push_back(point);
  if (finite.size() < kFewest) return {};
  const auto lowest = std::ranges::min_element(finite, {}, &RatePoint::loss);
  RateSuggestion found{.lowest = lowest->rate};
  double steepest = 0;
  for (auto at = finite.begin() + kFirst; at + kReach < finite.end() && at < lowest; ++at) {
    const double slope = (at[kReach].loss - at[-kReach].loss) / std::log(at[kReach].rate / at[-kReach].rate);
    if (slope < steepest) steepest = slope, found.steepest = at->rate;
  }
  if (found.steepest == 0) return {};
  found.rate = std::min(found.steepest, found.lowest / 10);
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
    return static_cast<size_t>(std::lround((kWidth - 1) * (std::log(rate) - left) / (right - left)));
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
