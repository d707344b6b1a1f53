// The picture of a sweep: no script, no font but the viewer's own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/sweep/results.h"

namespace ct {
namespace {

constexpr double kLeft = 70, kTop = 40, kHeight = 320, kColumn = 90, kMargin = 40;
constexpr double kLetter = 6.5, kTurned = 35, kRight = 0.82, kDown = 0.57;  // labels of columns, and where they end

std::string escaped_for_xml(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return safe;
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return str("<line x1=\"", x1, "\" y1=\"", y1, "\" x2=\"", x2, "\" y2=\"", y2, "\" stroke=\"", colour, "\"/>\n");
}

std::string label(double x, double y, const std::string& anchor, const std::string& text, double turned = 0) {
  return str("<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\" transform=\"rotate(", turned, " ", x, " ",
             y, ")\">", escaped_for_xml(text), "</text>\n");
}

/// A step between ticks: 1, 2 or 5 times a power of ten, about five of them in the range.
double tick_of(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5))), times = range / 5 / power;
  return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

std::vector<double> in_percent(std::vector<double> shares) {
  for (double& share : shares) share *= 100;
  return shares;
}

}  // namespace

std::string plot_text(const std::vector<SweepOutcome>& outcomes) {
  const std::vector<SweepGroup> groups = groups_of(outcomes);
  double least = 100, most = 0;
  for (const SweepGroup& group : groups) {
    std::vector<double> heights = in_percent(group.accuracies());
    if (heights.empty()) continue;
    const auto [mean, deviation] = mean_and_deviation(heights);
    heights.insert(heights.end(), {mean - deviation, mean + deviation});
    least = std::min(least, std::ranges::min(heights));
    most = std::max(most, std::ranges::max(heights));
  }
  if (least > most) least = 0, most = 100;  // nothing has ended
  const double tick = tick_of(std::max(most - least, 0.1));
  const double bottom = tick * std::floor(least / tick), top = tick * (std::floor(most / tick) + 1);
  const auto y = [&](double accuracy) { return kTop + kHeight * (top - accuracy) / (top - bottom); };
  const double right = kLeft + kColumn * static_cast<double>(groups.size());
  double longest = 0;
  for (const SweepGroup& group : groups) longest = std::max(longest, kLetter * static_cast<double>(group.text.size()));

  const std::string title = "test accuracy, %: each run, mean and standard deviation over seeds";
  const double width = std::max(right + kRight * longest, kLeft + kLetter * static_cast<double>(title.size()));

  std::string text =
      str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"",
          kTop + kHeight + kDown * longest + kMargin, "\" font-family=\"sans-serif\" font-size=\"12\">\n",
          "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  text += label(kLeft, kTop - 16, "start", title);
  for (double at = bottom; at < top + tick / 2; at += tick) {
    const std::string number = fmt::format("{:g}", std::round(at / tick) * tick);
    text += line(kLeft, y(at), right, y(at), "#dddddd") + label(kLeft - 8, y(at) + 4, "end", number);
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const double x = kLeft + kColumn * (static_cast<double>(g) + 0.5);
    text += label(x - 4, kTop + kHeight + 16, "start", groups[g].text, kTurned);
    const std::vector<double> accuracies = in_percent(groups[g].accuracies());
    if (accuracies.empty()) continue;
    const auto [mean, deviation] = mean_and_deviation(accuracies);
    text += line(x - 16, y(mean), x + 16, y(mean), "#1f4e8c");
    if (deviation > 0) text += line(x, y(mean - deviation), x, y(mean + deviation), "#1f4e8c");
    for (const double accuracy : accuracies)
      text += str("<circle cx=\"", x, "\" cy=\"", y(accuracy), "\" r=\"4\" fill=\"#d1603d\" fill-opacity=\"0.7\"/>\n");
  }
  return text + "</svg>\n";
}

}  // namespace ct
