// A figure of panels that share the axis of optimizer steps, as SVG.
//
// Curves differ by colour, by dashes, by the shape of their marks, and each has its name at its end. In a page the
// figure is as wide as its place, and its text keeps its size: only the curves are stretched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/report/curve.h"
#include "cli/report/markup.h"

namespace ct::report {

struct Curve {
  std::string name;  // at its end: a short word
  std::vector<Point> points;
  size_t style = 0;    // index into colours, dashes and marks
  bool faint = false;  // noise behind a smoothed curve
  bool marks = false;  // a mark at each point, if there are few
};

enum class Unit : uint8_t { number, percent };  // percent: of values 0 to 1

struct Panel {
  std::string title;  // with the unit
  std::vector<Curve> curves;
  Unit unit = Unit::number;
  bool may_be_logarithmic = false;
  int height = 200;  // px, of the curves' place

  /// Of all curves; none: nothing to draw.
  std::optional<Range> range() const;
  /// The same without faint ones.
  std::optional<Range> drawn_range() const;
  /// An axis for `shown`: logarithmic if it may be, and the numbers of curves that are not faint are far apart.
  Axis axis(Range shown, int wanted) const;
  /// The title, which says that an axis is logarithmic.
  std::string title_with(const Axis& axis) const;
};

struct Figure {
  std::string id;  // unique in the page
  std::string title, description;
  std::vector<Panel> panels;
  double last_step = 1;
};

/// The panels that have something to draw, beneath each other. `width`: in px, for a file of its own; none: that of its
/// place.
void draw(Markup& out, const Figure& figure, std::optional<int> width = {});
/// px
int height_of(const Figure& figure);

/// A number at an axis of that unit.
std::string tick_label(double value, Unit unit);

/// A short line in a curve's style, for legends.
void draw_sample(Markup& out, size_t style);

/// A name for each of `ends`, at its height but at least `gap` from the others, within 0 to `height`.
std::vector<double> spread(std::vector<double> ends, double gap, double height);

}  // namespace ct::report
