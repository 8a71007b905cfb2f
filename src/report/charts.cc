#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/fields.h"

namespace kernelopt {
namespace {

std::string Percent(double share) {
  return fmt::format("{:.2f}%", 100 * std::clamp(share, 0.0, 1.0));
}

Html Rectangle(double y, double height, double share, std::string css_class) {
  // Never thinner than can be seen.
  return Tag("rect", {{"x", "0"},
                      {"y", fmt::format("{}", y)},
                      {"width", Percent(std::max(share, 0.004))},
                      {"height", fmt::format("{}", height)},
                      {"rx", "2"},
                      {"class", std::move(css_class)}});
}

Html Line(const std::string& x1, const std::string& x2, const std::string& y1,
          const std::string& y2, std::string css_class) {
  return Tag("line",
             {{"x1", x1}, {"x2", x2}, {"y1", y1}, {"y2", y2}, {"class", std::move(css_class)}});
}

Html Svg(int height, const Html& inside, std::string label) {
  return Tag("svg",
             {{"width", "100%"},
              {"height", fmt::format("{}", height)},
              {"role", "img"},
              {"aria-label", label}},
             Tag("title", {}, Text(label)) + inside);
}

double Position(double value, const IntervalScale& scale) {
  return (value - scale.low) / (scale.high - scale.low);
}

double TickStep(const IntervalScale& scale) {
  const double wanted = (scale.high - scale.low) / 6;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= wanted) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Html BarsChart(const KernelBars& bars, double full) {
  if (full <= 0) full = 1;
  // A bar alone stands in the middle of its row.
  Html inside = Rectangle(bars.ours ? 3 : 9, 10, bars.compiler / full, "compiler");
  if (bars.ours) inside += Rectangle(15, 10, *bars.ours / full, "ours");
  if (bars.floor) {
    const std::string x = Percent(*bars.floor / full);
    inside += Line(x, x, "0", "28", "floor");
  }
  return Svg(28, inside, bars.title);
}

IntervalScale ScaleOf(const std::vector<Interval>& intervals) {
  double low = 1, high = 1;
  for (const Interval& interval : intervals) {
    for (const auto& value : {interval.median, interval.lo, interval.hi}) {
      if (!value) continue;
      low = std::min(low, std::clamp(*value, 0.01, 100.0));
      high = std::max(high, std::clamp(*value, 0.01, 100.0));
    }
  }
  const double margin = std::max(0.12 * (high - low), 0.01);
  return {low - margin, high + margin};
}

Html IntervalChart(const Interval& interval, const IntervalScale& scale) {
  const std::string one = Percent(Position(1, scale));
  Html inside = Line(one, one, "0", "30", "one");
  if (!interval.median) return Svg(30, inside, "not measured");
  const std::string css_class = interval.accepted ? "ours" : "rejected";
  const double lo = Position(interval.lo.value_or(*interval.median), scale);
  const double hi = Position(interval.hi.value_or(*interval.median), scale);
  inside += Line(Percent(lo), Percent(hi), "15", "15", "whisker " + css_class);
  for (const double end : {lo, hi}) {
    inside += Line(Percent(end), Percent(end), "9", "21", "whisker " + css_class);
  }
  inside += Tag("circle", {{"cx", Percent(Position(*interval.median, scale))},
                           {"cy", "15"},
                           {"r", "5"},
                           {"class", css_class}});
  return Svg(30, inside,
             fmt::format("{}, between {} and {}", Times(interval.median), Times(interval.lo),
                         Times(interval.hi)));
}

Html IntervalAxis(const IntervalScale& scale) {
  Html inside = Line("0", "100%", "1", "1", "axis");
  const double step = TickStep(scale);
  const int digits = step < 0.01 ? 3 : 2;
  for (double tick = std::ceil(scale.low / step) * step; tick <= scale.high; tick += step) {
    const double share = Position(tick, scale);
    if (share < 0.03 || share > 0.97) continue;
    const std::string x = Percent(share);
    inside += Line(x, x, "1", "5", "axis");
    inside += Tag("text", {{"x", x}, {"y", "18"}, {"text-anchor", "middle"}, {"class", "tick"}},
                  Text(fmt::format("{:.{}f}x", tick, digits)));
  }
  return Svg(22, inside, "speed-up over the compiler");
}

Html SharesChart(const std::vector<Share>& shares) {
  double total = 0;
  for (const Share& share : shares) total += std::max(share.amount, 0.0);
  if (total <= 0) return {};
  Html bar, legend;
  double x = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double width = std::max(shares[i].amount, 0.0) / total;
    const std::string css_class = fmt::format("part{}", i % 8);
    bar += Tag("rect",
               {{"x", Percent(x)},
                {"y", "0"},
                {"width", Percent(width)},
                {"height", "18"},
                {"class", css_class}},
               Tag("title", {}, Text(shares[i].name + " " + shares[i].value)));
    legend += Tag(
        "li", {},
        Tag("svg", {{"width", "10"}, {"height", "10"}, {"aria-hidden", "true"}},
            Tag("rect", {{"width", "10"}, {"height", "10"}, {"rx", "2"}, {"class", css_class}})) +
            Text(" " + shares[i].name + " ") +
            Tag("span", {{"class", "number"}}, Text(shares[i].value)));
    x += width;
  }
  return Tag("div", {{"class", "shares"}}, Svg(18, bar, "time a step")) +
         Tag("ul", {{"class", "legend"}}, legend);
}

Html GateStrip(const Json& gates) {
  Html chips;
  for (const Json& gate : gates) {
    const std::string state = Str(gate, "state");
    const bool passed = state == "passed", failed = state == "failed";
    const bool open = state == "not_verifiable";
    const auto number = static_cast<int64_t>(Num(gate, "gate").value_or(0));
    const std::string message = Str(gate, "message");
    const std::string title =
        fmt::format("gate {}: {}{}{}", number, Words(state), message.empty() ? "" : ": ", message);
    chips += Tag("span",
                 {{"class", passed   ? "chip passed"
                            : failed ? "chip failed"
                            : open   ? "chip open"
                                     : "chip"},
                  {"title", title}},
                 Text(fmt::format("{}{}", number,
                                  passed   ? " \u2713"
                                  : failed ? " \u2717"
                                  : open   ? " ?"
                                           : " \u2013")));
  }
  return Tag("span", {{"class", "gates"}}, chips);
}

}  // namespace kernelopt
