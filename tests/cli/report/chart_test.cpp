#include "cli/report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/report/text_chart.h"

namespace ct::report {
namespace {

Figure line_figure() {
  Panel panel{.title = "Loss", .height = 100};
  panel.curves.push_back({.name = "val", .points = {{0, 0}, {50, 1}, {100, 2}}, .marks = true});
  return {.id = "f", .title = "T", .description = "D", .panels = {panel}, .last_step = 100};
}

TEST(Chart, PutsPointsWhereTheyBelong) {
  Markup out;
  draw(out, line_figure(), 500);
  const std::string svg = out.take();
  // 4 % of the range lie beyond each end: 100 px are 2.16.
  EXPECT_NE(svg.find("points=\"0.0,96.3 500.0,50.0 1000.0,3.7\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("cx=\"50.00%\" cy=\"50.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("aria-labelledby=\"f-title f-desc\""), std::string::npos);
}

TEST(Chart, LeavesOutPanelsWithoutNumbers) {
  Figure figure = line_figure();
  figure.panels.push_back({.title = "Nothing", .height = 100});
  EXPECT_EQ(height_of(figure), height_of(line_figure()));
  Markup out;
  draw(out, figure);
  EXPECT_EQ(out.take().find("Nothing"), std::string::npos);
}

TEST(Chart, TheCurvesThatAreNotFaintMakeAnAxisLogarithmicAndTheTitleSaysSo) {
  Panel panel{.title = "Loss", .may_be_logarithmic = true};
  panel.curves.push_back({.name = "", .points = {{0, 0.01}, {100, 10}}, .faint = true});
  panel.curves.push_back({.name = "train", .points = {{0, 2}, {100, 1}}});
  EXPECT_FALSE(panel.axis(*panel.range(), 5).logarithmic);
  panel.curves.back().points.back().y = 0.01;
  const Axis axis = panel.axis(*panel.range(), 5);
  EXPECT_TRUE(axis.logarithmic);
  EXPECT_EQ(panel.title_with(axis), "Loss, logarithmic axis");
}

TEST(Spread, KeepsNamesApart) {
  EXPECT_EQ(spread({50, 10}, 13, 100), (std::vector<double>{50, 10}));
  const std::vector<double> places = spread({100, 99, 98, 0}, 13, 100);
  EXPECT_EQ(places, (std::vector<double>{100, 87, 74, 0}));
  std::vector<double> many = spread(std::vector<double>(30, 50), 13, 100);
  std::ranges::sort(many);
  EXPECT_GE(many.front(), -1e-9);
  EXPECT_LE(many.back(), 100 + 1e-9);
}

TEST(TextChart, FitsItsTerminal) {
  for (const int columns : {30, 80, 200})
    for (const std::string& line : text_of(line_figure(), {.columns = columns, .unicode = false}))
      EXPECT_LE(line.size(), static_cast<size_t>(columns)) << line;
}

TEST(TextChart, DrawsALineFromCornerToCorner) {
  const std::vector<std::string> lines = text_of(line_figure(), {.columns = 40, .unicode = false});
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0], "Loss   v val");
  EXPECT_EQ(lines[1].back(), 'v');
  EXPECT_EQ(lines[1].size(), 39U);
  EXPECT_EQ(lines[4].substr(9, 2), "|v");
}

TEST(TextChart, DrawsDotsOfBraille) {
  Figure figure = line_figure();
  figure.panels[0].curves[0].marks = false;
  const std::vector<std::string> lines = text_of(figure, {.columns = 40, .unicode = true});
  EXPECT_NE(lines[1].find("\xe2\xa0"), std::string::npos);
}

}  // namespace
}  // namespace ct::report
