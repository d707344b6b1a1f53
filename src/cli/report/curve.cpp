#include "cli/report/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ct::report {
namespace {

/// At least two, unless numbers cannot divide the range: a single one gives no scale.
std::vector<double> linear_ticks(Range range, int wanted) {
  const double rough = range.size() / wanted, power = std::pow(10, std::floor(std::log10(rough)));
  const double times = rough / power, step = power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  if (!(step > 0) || !std::isfinite(step)) return ticks;
  const double first = std::ceil(range.low / step - 1e-9);
  for (int i = 0; i <= 4 * wanted; ++i) {
    const double tick = (first + i) * step;
    if (tick > range.high + step * 1e-9) break;
    ticks.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  }
  return ticks.size() < 2 && wanted < 3 ? linear_ticks(range, 3) : ticks;
}

/// Powers of ten; where there are few, also twice and five times these.
std::vector<double> logarithmic_ticks(Range range, int wanted) {
  const int first = static_cast<int>(std::floor(std::log10(range.low))),
            last = static_cast<int>(std::ceil(std::log10(range.high))), every = std::max((last - first) / wanted, 1);
  const bool few = 3 * std::log10(range.high / range.low) <= std::max(2 * wanted, 7);
  std::vector<double> ticks;
  for (int power = first; power <= last; power += every)
    for (const int times : {1, 2, 5}) {
      const double tick = times * std::pow(10, power);
      if ((times == 1 || few) && tick >= range.low && tick <= range.high) ticks.push_back(tick);
    }
  return ticks;
}

}  // namespace

std::vector<Point> thinned(std::span<const Point> points, size_t columns) {
  if (points.size() <= 4 * columns) return {points.begin(), points.end()};
  const double begin = points.front().x, width = (points.back().x - begin) / static_cast<double>(columns);
  std::vector<Point> kept;
  const auto column = [&](const Point& point) {
    return width > 0 ? std::min(static_cast<size_t>((point.x - begin) / width), columns - 1) : 0;
  };
  for (size_t i = 0; i < points.size();) {
    size_t end = i + 1;
    while (end < points.size() && column(points[end]) == column(points[i])) ++end;
    std::array<size_t, 4> chosen = {i, i, i, end - 1};
    bool any = false;
    for (size_t k = i; k < end; ++k) {
      if (std::isnan(points[k].y)) continue;
      if (!any) chosen = {k, k, k, k};
      if (points[k].y < points[chosen[1]].y) chosen[1] = k;
      if (points[k].y > points[chosen[2]].y) chosen[2] = k;
      chosen[3] = k;
      any = true;
    }
    if (!any) chosen = {i, i, i, i};
    std::ranges::sort(chosen);
    for (size_t k = 0; k < chosen.size(); ++k)
      if (k == 0 || chosen[k] != chosen[k - 1]) kept.push_back(points[chosen[k]]);
    i = end;
  }
  return kept;
}

std::vector<Point> smoothed(std::span<const Point> points) {
  std::vector<Point> finite;
  for (const Point& point : points)
    if (!std::isnan(point.y)) finite.push_back(point);
  const size_t reach = std::max(finite.size() / 50, std::min(finite.size() / 4, size_t{3}));
  std::vector<Point> means;
  double sum = 0;
  size_t begin = 0, end = 0;  // what the sum is of
  for (size_t i = 0; i < finite.size(); ++i) {
    while (end < std::min(i + reach + 1, finite.size())) sum += finite[end++].y;
    while (begin + reach < i) sum -= finite[begin++].y;
    means.push_back({finite[i].x, sum / static_cast<double>(end - begin)});
  }
  return means;
}

std::optional<Range> range_of(std::span<const Point> points) {
  std::optional<Range> range;
  for (const Point& point : points) {
    if (std::isnan(point.y)) continue;
    if (!range) range = Range{point.y, point.y};
    range->low = std::min(range->low, point.y);
    range->high = std::max(range->high, point.y);
  }
  return range;
}

double Axis::place(double value) const {
  if (!logarithmic) return (value - range.low) / range.size();
  return std::log(value / range.low) / std::log(range.high / range.low);
}

bool are_far_apart(Range values) { return values.low > 0 && values.high / values.low > 50; }

Axis axis_for(Range values, bool logarithmic, int wanted) {
  constexpr double kBeyond = 0.04;
  if (logarithmic && values.low > 0 && values.size() > 0) {
    const double beyond = std::pow(values.high / values.low, kBeyond);
    const Range range{values.low / beyond, values.high * beyond};
    return {range, true, logarithmic_ticks(range, wanted)};
  }
  const double size = values.size() > 0 ? values.size() : std::max(std::abs(values.low), 1e-3);
  return exact_axis({values.low - kBeyond * size, values.high + kBeyond * size}, wanted);
}

Axis exact_axis(Range values, int wanted) {
  if (values.size() <= 0) values.high = values.low + 1;
  return {values, false, linear_ticks(values, wanted)};
}

std::string count_text(int64_t count) {
  std::string text = std::to_string(count);
  const size_t sign = count < 0 ? 1 : 0;
  for (size_t at = text.size(); at > sign + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-4)) return fmt::format("{:.3g}", value);
  if (size >= 1e6) return fmt::format("{:.6g} M", value / 1e6);
  if (size >= 1000 && value == std::round(value)) return count_text(static_cast<int64_t>(value));
  return fmt::format("{:.6g}", value);
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "not finite";
  if (std::abs(value) >= 1000 && std::abs(value) < 1e15) return count_text(std::llround(value));
  return fmt::format("{:.4g}", value);
}

}  // namespace ct::report
