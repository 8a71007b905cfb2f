// The charts of the page, as inline SVG. Widths are in percent of the place
// they are put in, so that text keeps its size on every screen; colours are
// the style sheet's variables. Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/html.h"

namespace kernelopt {

struct KernelBars {
  double compiler = 0;
  std::optional<double> ours, floor;
  std::string title;  ///< what a pointer resting on it tells
};

/// Two bars, the compiler's above ours, and a mark at the floor; `full` is the
/// value of the whole width.
Html BarsChart(const KernelBars& bars, double full);

struct Interval {
  std::optional<double> median, lo, hi;
  bool accepted = false;
};

/// The scale that the interval rows of one plot share.
struct IntervalScale {
  double low = 0.95, high = 1.05;
};
IntervalScale ScaleOf(const std::vector<Interval>& intervals);

/// One row: whiskers from lo to hi, a dot at the median, a line at 1.
Html IntervalChart(const Interval& interval, const IntervalScale& scale);
/// The row of ticks under an interval plot.
Html IntervalAxis(const IntervalScale& scale);

struct Share {
  std::string name, value;  ///< the value as text
  double amount = 0;
};

/// One bar of parts, with a legend under it.
Html SharesChart(const std::vector<Share>& shares);

/// Four chips, one a gate: passed, failed, not verifiable, not reached. The
/// state is a sign as well as a colour.
Html GateStrip(const Json& gates);

}  // namespace kernelopt
