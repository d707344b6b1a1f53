// A curve's points, and what is drawn of them: at most as many as a screen can show, and round numbers at its axes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ct::report {

/// `y` is NaN where there is no finite number: the curve has a gap there.
struct Point {
  double x = 0, y = 0;
  bool operator==(const Point&) const = default;
};

/// `points` ascend by x. Of each of `columns` equal spans the first, the lowest, the highest and the last point are
/// kept, in their order, so that no peak is lost; a gap that is at least a span wide stays one.
std::vector<Point> thinned(std::span<const Point> points, size_t columns);

/// Around each point the mean of those within a fiftieth of the curve, and of few points within three. Gaps are closed.
std::vector<Point> smoothed(std::span<const Point> points);

/// The lowest and the highest finite y; none: there is no such point.
struct Range {
  double low = 0, high = 0;
  double size() const { return high - low; }
};
std::optional<Range> range_of(std::span<const Point> points);

/// An axis from low to high.
struct Axis {
  Range range;
  bool logarithmic = false;
  std::vector<double> ticks;  // round numbers within the range, about `wanted`
  /// 0 at the lower end, 1 at the upper one.
  double place(double value) const;
};
/// Are numbers of this range better shown by a logarithmic axis?
bool are_far_apart(Range values);
/// An axis that shows these values, with a little space beyond them. A logarithmic one only if all are positive.
Axis axis_for(Range values, bool logarithmic, int wanted);
/// An axis that ends where the values do.
Axis exact_axis(Range values, int wanted);

/// "25,000", "2.5 M", "0.001", "1e-05": a number at an axis.
std::string tick_text(double value);
/// Four significant digits; "not finite" for NaN.
std::string number_text(double value);
/// "12,500"
std::string count_text(int64_t count);

}  // namespace ct::report
