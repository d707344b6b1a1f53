// The style sheet of a report's page; colours are variables of chart_style(). A table wider than its box has a shadow
// at the edge behind which it goes on: the ground that covers it scrolls with the table.
#pragma once

namespace ct::report {

inline constexpr const char* kPageStyle = R"(*, ::before, ::after { box-sizing: border-box }
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

}  // namespace ct::report
