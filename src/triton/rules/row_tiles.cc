#include <fmt/format.h>

#include <algorithm>

#include "inductor/module.h"
#include "triton/rules/plans.h"
#include "triton/rules/rule.h"

namespace kernelopt {
namespace {

/// Loads that every row has in common, and loads that a row has one of.
struct Sharing {
  bool over_rows = false;
  bool divides = false;  ///< elements divide their index beyond the innermost column
};

Sharing FindSharing(const TileableKernel& kernel) {
  Sharing sharing;
  for (const PointwiseStatement& statement : kernel.pointwise.body) {
    for (const PointwiseAccess& load : statement.loads) {
      if (!load.offset) continue;
      bool column = load.offset->terms.contains(kernel.column);
      sharing.over_rows |= column && load.offset->terms.size() == 1;
    }
  }
  for (const IndexVariable& variable : kernel.pointwise.indices)
    sharing.divides |= variable.divisor > 1;
  return sharing;
}

}  // namespace

RuleFinding RowTiles(const RuleSubject& subject) {
  RuleFinding finding;
  finding.rule = "row_tiles";
  auto refuse = [&](std::string why) {
    finding.refusal = std::move(why);
    return finding;
  };
  auto kernel = ReadTiles(subject);
  if (!kernel) return refuse(kernel.error().message);
  Sharing sharing = FindSharing(*kernel);
  if (!sharing.over_rows && !sharing.divides)
    return refuse("its index is not divided, and rows share no load");
  const int64_t group = RowsOfGroup(kernel->pointwise, kernel->row);
  for (int64_t columns : ColumnTiles(kernel->row)) {
    for (int rows : {1, 4, 16}) {
      if (rows > group || (rows > 1 && !sharing.over_rows)) continue;
      std::string change = fmt::format(
          "tiles of {} row{} by {} columns in place of a flat index: the division leaves the "
          "elements{}",
          rows, rows == 1 ? "" : "s", columns,
          rows > 1 ? ", and what rows share is loaded once" : "");
      AddPlan(subject, *kernel, {kernel->row, columns, rows, 1}, std::move(change), &finding);
    }
  }
  return finding;
}

std::vector<RuleFinding> ApplyRules(const RuleSubject& subject) {
  return {ShiftedWindow(subject), RowTiles(subject)};
}

}  // namespace kernelopt
