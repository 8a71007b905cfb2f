#include "triton/rules/plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "inductor/module.h"
#include "inductor/splice.h"
#include "triton/rules/tile_analysis.h"

namespace kernelopt {
namespace {

/// Inductor's own limit of a block of x, which keeps a grid's formula legal.
constexpr int64_t kMostBlock = 4096;

/// Beyond this a tile's text takes long to write and longer to compile.
constexpr size_t kMostStatements = 300;

}  // namespace

Result<TileableKernel> ReadTiles(const RuleSubject& subject) {
  if (subject.kernel.grid_type != "Grid1D" || !subject.config.constexprs.contains("XBLOCK"))
    return NotTileable("its grid has more than one axis");
  TileableKernel kernel;
  kernel.pointwise = KOPT_TRY(ReadPointwise(KernelText(subject.kernel), subject.kernel.entry));
  if (kernel.pointwise.body.size() > kMostStatements)
    return NotTileable(fmt::format("it has more than {} statements", kMostStatements));
  int64_t narrow = 0;
  for (const IndexVariable& variable : kernel.pointwise.indices) {
    if (variable.divisor != 1 || variable.modulus == 0) continue;
    if (ColumnTiles(variable.modulus).empty()) {
      narrow = variable.modulus;
    } else if (kernel.row == 0 || variable.modulus < kernel.row) {
      kernel.row = variable.modulus;
      kernel.column = variable.name;
    }
  }
  if (kernel.row > 0) return kernel;
  if (narrow == 0) return NotTileable("its index is not divided into rows");
  return NotTileable(fmt::format("its rows of {} columns fill no tile well", narrow));
}

std::vector<int64_t> ColumnTiles(int64_t row) {
  std::vector<int64_t> tiles;
  for (int64_t tile : {1024, 512, 256, 128}) {
    int64_t lanes = (row + tile - 1) / tile * tile;
    if (6 * (lanes - row) <= lanes) tiles.push_back(tile);
  }
  if (tiles.size() > 2) tiles.resize(2);
  return tiles;
}

void AddPlan(const RuleSubject& subject, const TileableKernel& kernel, const TilePlan& plan,
             std::string change, RuleFinding* finding) {
  auto text = EmitTiles(kernel.pointwise, plan);
  if (!text) {
    finding->refusal = text.error().message;
    return;
  }
  RuleText made{finding->rule + ":" + plan.ToString(), std::move(*text), std::move(change), {}};
  for (int64_t a_thread : {1, 2}) {
    LaunchConfig config = subject.config;
    config.constexprs["XBLOCK"] = std::min(kMostBlock, plan.column_tile * plan.rows);
    config.num_warps = static_cast<int>(
        std::clamp<int64_t>(plan.column_tile / plan.vector / 32 / a_thread, 1, 32));
    config.num_stages = 1;
    config.maxnreg.reset();
    if (std::ranges::find(made.configs, config) == made.configs.end())
      made.configs.push_back(config);
  }
  finding->texts.push_back(std::move(made));
}

}  // namespace kernelopt
