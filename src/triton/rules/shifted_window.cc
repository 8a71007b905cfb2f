#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "device/judge.h"
#include "inductor/module.h"
#include "triton/rules/plans.h"
#include "triton/rules/rule.h"

namespace kernelopt {
namespace {

constexpr int kLeastShifts = 3;

/// The most loads of one pointer at different shifts of the innermost column.
struct Window {
  std::string pointer;
  int loads = 0;
  bool over_rows = false;  ///< neighbouring outputs of a column share loads, too
};

Window LargestWindow(const TileableKernel& kernel) {
  struct Shifts {
    int count = 0;
    int64_t least = 0, most = 0;
  };
  std::map<std::pair<std::string, std::map<std::string, int64_t>>, Shifts> windows;
  for (const PointwiseStatement& statement : kernel.pointwise.body) {
    for (const PointwiseAccess& load : statement.loads) {
      if (!load.offset || load.offset->Coefficient(kernel.column) < 1) continue;
      auto [it, first] = windows.try_emplace({load.pointer, load.offset->terms});
      Shifts& shifts = it->second;
      const int64_t shift = load.offset->constant;
      shifts.least = first ? shift : std::min(shifts.least, shift);
      shifts.most = first ? shift : std::max(shifts.most, shift);
      ++shifts.count;
    }
  }
  Window largest;
  for (const auto& [what, shifts] : windows) {
    if (shifts.count <= largest.loads) continue;
    largest = {what.first, shifts.count, false};
    for (const IndexVariable& variable : kernel.pointwise.indices) {
      auto row = what.second.find(variable.name);
      largest.over_rows |= variable.divisor == kernel.row && row != what.second.end() &&
                           shifts.most - shifts.least >= row->second;
    }
  }
  return largest;
}

}  // namespace

RuleFinding ShiftedWindow(const RuleSubject& subject) {
  RuleFinding finding;
  finding.rule = "shifted_window";
  auto refuse = [&](std::string why) {
    finding.refusal = std::move(why);
    return finding;
  };
  auto kernel = ReadTiles(subject);
  if (!kernel) return refuse(kernel.error().message);
  Window window = LargestWindow(*kernel);
  if (window.loads < kLeastShifts)
    return refuse(fmt::format("no pointer is loaded at {} or more shifts of a row", kLeastShifts));

  const KernelArgument* argument = subject.kernel.FindArgument(window.pointer);
  auto type = DTypeFromTriton(argument == nullptr ? "" : argument->triton_type);
  const int vector = type && SizeOf(*type) <= 4 ? 16 / SizeOf(*type) : 1;
  std::vector<TilePlan> plans;
  const int64_t group = RowsOfGroup(kernel->pointwise, kernel->row);
  for (int64_t columns : ColumnTiles(kernel->row)) {
    for (int rows : {4, 1, 2, 8}) {
      if (rows > group || (rows > 2 && !window.over_rows)) continue;
      if (vector > 1 && vector <= 8 && columns / vector >= 32)
        plans.push_back({kernel->row, columns, rows, vector});
      if (rows == 1 || rows == 4) plans.push_back({kernel->row, columns, rows, 1});
    }
  }
  for (const TilePlan& plan : plans) {
    std::string change = fmt::format(
        "tiles of {} row{} by {} columns in place of a flat index: the division leaves the "
        "elements{}{}",
        plan.rows, plan.rows == 1 ? "" : "s", plan.column_tile,
        plan.rows > 1 ? ", rows that windows share are loaded once" : "",
        plan.vector > 1
            ? fmt::format(", and shifts are cut out of aligned vectors of {}", plan.vector)
            : "");
    AddPlan(subject, *kernel, plan, std::move(change), &finding);
  }
  return finding;
}

}  // namespace kernelopt
