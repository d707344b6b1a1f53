// The style sheets of a report: the page's layout, the colours of grounds and curves, and the lines of figures.
#pragma once

#include <cstddef>
#include <string>

namespace ct::report {

/// px beside the curves of a figure, for labels.
inline constexpr int kChartLeft = 58, kChartRight = 62;
/// Colours of curves, --c0 and so on.
inline constexpr size_t kCurveColours = 8;

/// Of a page with figures, for a light and a dark screen and for paper. Variables: --ground, --ink, --quiet, --grid,
/// and the colours of curves.
std::string page_style();
/// Of a file with one figure, on a light ground, without variables: many programs that show pictures know none.
std::string chart_file_style();

}  // namespace ct::report
