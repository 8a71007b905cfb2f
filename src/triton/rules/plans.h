// What the rules that tile a pointwise kernel have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "triton/rules/pointwise.h"
#include "triton/rules/rule.h"
#include "triton/rules/tiles.h"

namespace kernelopt {

struct TileableKernel {
  PointwiseKernel pointwise;
  std::string column;  ///< the index variable that is xindex % row
  int64_t row = 0;     ///< columns of a row
};

/// Error: kUsage with one sentence, why the kernel can't be tiled.
Result<TileableKernel> ReadTiles(const RuleSubject& subject);

/// Column tiles, widest first, that leave at most a sixth of their lanes idle.
std::vector<int64_t> ColumnTiles(int64_t row);

/// The plan's text with launch configurations of one and two vectors a thread.
/// A plan that can't be written is noted as the finding's refusal.
void AddPlan(const RuleSubject& subject, const TileableKernel& kernel, const TilePlan& plan,
             std::string change, RuleFinding* finding);

}  // namespace kernelopt
