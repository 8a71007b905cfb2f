#include "report/style.h"

namespace kernelopt {

Html StyleSheet() {
  return Verbatim(R"css(<style>
:root { color-scheme: light dark;
  --page: #f7f8fa; --card: #ffffff; --ink: #1b2430; --soft: #5d6b7c; --line: #dfe4ea;
  --compiler: #9aa7b6; --ours: #0f8b7e; --floor: #d9480f; --bad: #c92a2a; --open: #b7791f;
  --good-back: #dff3ee; --bad-back: #fbe3e3; --open-back: #fbf0d9; --none-back: #eef1f4;
  --p0: #0f8b7e; --p1: #4c6ef5; --p2: #e8833a; --p3: #9c5fc9; --p4: #7a8797; --p5: #d6456a; --p6: #b59a1c;
  --p7: #3d8fc4; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --card: #1a2029; --ink: #e6ebf1; --soft: #93a1b1; --line: #2c3542;
  --compiler: #66758a; --ours: #2ec4b0; --floor: #ff9d66; --bad: #ff7b7b; --open: #f0c35c;
  --good-back: #12382f; --bad-back: #432023; --open-back: #3d3318; --none-back: #232b36;
  --p0: #2ec4b0; --p1: #7d95ff; --p2: #f2a365; --p3: #c08be6; --p4: #8996a6; --p5: #f07c9b; --p6: #d8bf4a;
  --p7: #6db6e3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; font-weight: 650; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 4px; font-weight: 650; }
p { margin: 0; }
.soft { color: var(--soft); }
.small { font-size: 13px; }
.mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: 13px; overflow-wrap: anywhere; }
.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 20px 22px; margin-top: 18px; }
.verdict { display: flex; flex-wrap: wrap; align-items: baseline; gap: 10px; margin: 12px 0 2px; }
.badge { border-radius: 999px; padding: 2px 12px; font-weight: 600; background: var(--none-back);
  white-space: nowrap; }
.badge.passed { background: var(--good-back); color: var(--ours); }
.badge.failed { background: var(--bad-back); color: var(--bad); }
.badge.open { background: var(--open-back); color: var(--open); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px;
  margin-top: 18px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 18px; }
.tile b { display: block; font-size: 28px; line-height: 1.2; font-weight: 650;
  font-variant-numeric: tabular-nums; }
.tile.main b { color: var(--ours); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-top: 8px; }
th { text-align: left; font-weight: 500; font-size: 13px; color: var(--soft); white-space: nowrap; }
th, td { padding: 6px 14px 6px 0; vertical-align: middle; border-bottom: 1px solid var(--line); }
th:last-child, td:last-child { padding-right: 0; }
tr.last td, tr.axis td { border-bottom: 0; }
tr.axis td { padding-top: 0; }
td.right, th.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { max-width: 270px; min-width: 170px; overflow-wrap: anywhere; }
td.plot { width: 34%; min-width: 200px; }
td.bars { width: 32%; min-width: 180px; }
svg { display: block; overflow: visible; }
rect.compiler { fill: var(--compiler); } rect.ours, circle.ours { fill: var(--ours); }
circle.rejected { fill: var(--compiler); }
line.floor { stroke: var(--floor); stroke-width: 2; }
line.one { stroke: var(--soft); stroke-dasharray: 3 3; }
line.axis { stroke: var(--line); } text.tick { fill: var(--soft); font-size: 12px; }
line.whisker { stroke-width: 2; }
line.whisker.ours { stroke: var(--ours); } line.whisker.rejected { stroke: var(--compiler); }
.part0 { fill: var(--p0); } .part1 { fill: var(--p1); } .part2 { fill: var(--p2); }
.part3 { fill: var(--p3); } .part4 { fill: var(--p4); } .part5 { fill: var(--p5); }
.part6 { fill: var(--p6); } .part7 { fill: var(--p7); }
.shares { margin-top: 12px; border-radius: 5px; overflow: hidden; }
ul.legend { list-style: none; margin: 10px 0 0; padding: 0; display: flex; flex-wrap: wrap;
  gap: 4px 20px; font-size: 13px; }
ul.legend li svg { display: inline-block; margin-right: 4px; }
ul.legend .number { color: var(--soft); }
.gates { display: inline-flex; gap: 4px; }
.chip { border-radius: 5px; padding: 1px 6px; font-size: 12px; white-space: nowrap;
  background: var(--none-back); color: var(--soft); font-variant-numeric: tabular-nums; }
.chip.passed { background: var(--good-back); color: var(--ours); }
.chip.failed { background: var(--bad-back); color: var(--bad); }
.chip.open { background: var(--open-back); color: var(--open); }
details { border-top: 1px solid var(--line); padding: 8px 0; }
summary { cursor: pointer; }
summary > span { margin-left: 10px; }
dl { display: grid; grid-template-columns: 12em 1fr; gap: 4px 16px; margin: 8px 0 4px 18px;
  font-size: 14px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
footer { margin-top: 22px; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
@media print { body { background: none; } section, .tile { break-inside: avoid; } }
</style>)css");
}

}  // namespace kernelopt
