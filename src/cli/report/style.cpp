#include "cli/report/style.h"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ct::report {
namespace {

// Colours of equal contrast on their ground, which also differ for the colour-blind.
constexpr std::array<const char*, kCurveColours> kLightColours = {"#0b5cad", "#c4480c", "#00735c", "#9a3d8f",
                                                                  "#7a5c00", "#5a5f66", "#b3194a", "#3d43b8"};
constexpr std::array<const char*, kCurveColours> kDarkColours = {"#6db3ff", "#ff9a62", "#4fd1b0", "#e79adf",
                                                                 "#e3bf4b", "#b4bac2", "#ff87a6", "#a6abff"};

enum class Ground : uint8_t { light, dark, paper };
using NamedColour = std::pair<std::string, std::string>;

std::vector<NamedColour> colours_on(Ground ground) {
  std::vector<NamedColour> named;
  switch (ground) {
    case Ground::light:
      named = {{"ground", "#fff"}, {"ink", "#1b1f24"}, {"quiet", "#57606a"}, {"grid", "#e3e6ea"}};
      break;
    case Ground::dark:
      named = {{"ground", "#14171c"}, {"ink", "#e8eaed"}, {"quiet", "#a3abb5"}, {"grid", "#2c323a"}};
      break;
    case Ground::paper:
      named = {{"ground", "#fff"}, {"ink", "#000"}, {"quiet", "#444"}, {"grid", "#ddd"}};
      break;
  }
  const auto& curves = ground == Ground::dark ? kDarkColours : kLightColours;
  for (size_t i = 0; i < curves.size(); ++i) named.emplace_back(str("c", i), curves[i]);
  return named;
}

/// How a figure looks, with its colours by name.
std::string rules() {
  std::string text = R"(.chart { display: block; font: 12px/1 system-ui, sans-serif; overflow: visible }
.chart text { fill: var(--ink) }
.chart .tick { fill: var(--quiet); text-anchor: middle }
.chart .left { text-anchor: end }
.chart .title { font-weight: 600; font-size: 13px }
.chart .name { font-size: 11px; font-weight: 600 }
.chart .ground { fill: var(--ground) }
.grid { stroke: var(--grid); stroke-width: 1 }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke }
.faint { stroke-width: 1; opacity: 0.45 }
.mark { stroke: var(--ground); stroke-width: 1 }
)";
  for (size_t i = 0; i < kLightColours.size(); ++i)
    text += str(".curve.s", i, " { stroke: var(--c", i, ") } .mark.s", i, ", .chart .name.s", i, " { fill: var(--c", i,
                ") }\n");
  return text;
}

/// Of figures, for a light and a dark ground, with the colours as variables.
std::string chart_style() {
  const auto colours = [](const std::vector<NamedColour>& named) {
    std::string text;
    for (const auto& [name, colour] : named) text += str(" --", name, ": ", colour, ";");
    return text;
  };
  return str(":root { color-scheme: light dark;", colours(colours_on(Ground::light)), " }\n",
             "@media (prefers-color-scheme: dark) { :root {", colours(colours_on(Ground::dark)), " } }\n",
             // paper is white, whatever the screen shows
             "@media print { :root { color-scheme: light;", colours(colours_on(Ground::paper)), " } }\n",
             "figure .chart { margin-left: ", kChartLeft, "px; width: calc(100% - ", kChartLeft + kChartRight,
             "px) }\n", "@media (max-width: 560px) { .chart .second { display: none } }\n", rules());
}

// A table wider than its box has a shadow at the edge behind which it goes on: the ground that covers it scrolls with
// the table.
constexpr const char* kLayout = R"(*, ::before, ::after { box-sizing: border-box }
body { margin: 0 auto; max-width: 1680px; padding: 0 clamp(12px, 2.5vw, 40px) 48px; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; margin: 24px 0 0 } h2 { font-size: 1.2rem; margin: 40px 0 8px } h3 { font-size: 1rem; margin: 24px 0 4px }
header p, figcaption, caption { color: var(--quiet) }
header p { margin: 4px 0 0 }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 20px; list-style: none; margin: 16px 0 0; padding: 0 }
a { color: var(--c0) }
.skip { position: absolute; left: -999px } .skip:focus { left: 8px; top: 8px; background: var(--ground); padding: 8px }
:focus-visible { outline: 3px solid var(--c0); outline-offset: 2px }
.figures { display: grid; gap: 24px 48px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 540px), 1fr)) }
figure { margin: 0; min-width: 0 }
figcaption { font-size: 0.9rem; margin-top: 8px }
.scroll { overflow-x: auto; max-width: 100%; width: fit-content; margin: 8px 0 16px;
  --edge: color-mix(in srgb, var(--quiet) 60%, transparent), transparent 10px; --cover: var(--ground) 12px, transparent 28px;
  background: linear-gradient(90deg, var(--cover)) local, linear-gradient(270deg, var(--cover)) local,
  linear-gradient(90deg, var(--edge)), linear-gradient(270deg, var(--edge)) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
caption { text-align: left; font-size: 0.9rem; padding: 4px 0; max-width: calc(100vw - 24px) }
th, td { text-align: left; vertical-align: top; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--grid); unicode-bidi: isolate }
th, td { overflow-wrap: break-word } .long { overflow-wrap: anywhere; min-width: 22ch }
td { max-width: 70ch } tbody th { font-weight: 400; min-width: 14ch; max-width: 48ch }
thead th { font-weight: 600; border-bottom-color: var(--quiet); vertical-align: bottom }
.number { text-align: right; overflow-wrap: normal } td.number { white-space: nowrap }
.best th, .best td, .differs th, .differs td, .given th, .given td { font-weight: 700 }
.best { background: color-mix(in srgb, var(--c2) 14%, transparent) }
.sample { vertical-align: middle; overflow: visible }
details { margin: 8px 0 } summary { cursor: pointer; padding: 4px 0 }
@media print { nav, .skip { display: none } body { max-width: none; font-size: 10pt } .scroll { overflow: visible }
  details::details-content { content-visibility: visible; display: block; block-size: auto } h2, h3 { break-after: avoid }
  figure, tr, .beside > * { break-inside: avoid } .figures { display: block } }
)";

}  // namespace

std::string page_style() { return chart_style() + kLayout; }

std::string chart_file_style() {
  std::string style = rules();
  for (const auto& [name, colour] : colours_on(Ground::light)) {
    const std::string variable = "var(--" + name + ")";
    for (size_t at = 0; (at = style.find(variable, at)) != style.npos;) style.replace(at, variable.size(), colour);
  }
  return style;
}

}  // namespace ct::report
