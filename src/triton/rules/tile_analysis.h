// What is known of a pointwise kernel before its tiles are written (tiles.h).
// Internal to this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "triton/rules/tiles.h"

namespace kernelopt {

// Symbols of forms inside of a tile, and the names that stand for them in its text.
inline constexpr const char* kColumn = "column";  ///< the column of an element
inline constexpr const char* kY = "y";            ///< the tile's first row in its group
inline constexpr const char* kOuter = "outer";    ///< the group

/// What a value depends on inside of a tile.
enum Dependency : unsigned { kNothing = 0, kOnRow = 1, kOnColumn = 2 };

inline std::unexpected<Error> NotTileable(std::string why) {
  return Fail(ErrorKind::kUsage, "not_tileable", std::move(why));
}

struct TileAnalysis {
  /// Errors: kUsage "not_tileable".
  static Result<TileAnalysis> Make(const PointwiseKernel& kernel, const TilePlan& plan);

  /// A load with everything of it linear in column, y and outer.
  struct LinearLoad {
    IndexForm offset;
    std::vector<IndexForm> conditions;
  };
  std::optional<LinearLoad> Linear(const PointwiseAccess& load) const;

  /// A form over index variables as one over column, y and outer; nothing
  /// where one of its variables has none.
  std::optional<IndexForm> Substitute(const IndexForm& form) const;

  /// A union of Dependency.
  unsigned DependsOn(const std::string& name) const;

  /// maximum(maximum(a, b), c), whose inner results nothing else reads.
  struct Chain {
    std::string function;               ///< "tl.maximum"
    std::vector<std::string> operands;  ///< names of the body
  };

  int64_t group = 0;  ///< rows that follow each other in the innermost row variable, 0 = all
  int64_t group_rows = 0, groups = 1, column_tiles = 1, row_tiles = 1;
  bool row_guard = false;     ///< a tile may reach beyond its group's last row
  bool column_guard = false;  ///< a tile may reach beyond the last column

  std::map<std::string, std::optional<IndexForm>> forms;  ///< of index variables
  std::map<std::string, size_t> definition;               ///< name -> statement
  std::map<size_t, Chain> chains;  ///< by the statement of the last operation
  std::set<size_t> needed;         ///< statements that a store's value or a load's place needs

 private:
  TileAnalysis(const PointwiseKernel& kernel, const TilePlan& plan)
      : kernel_(&kernel), plan_(&plan) {}

  void FindIndices();
  std::string OuterPart(int64_t divisor, int64_t modulus) const;
  void FindDependencies();
  void FindChains();
  void FindNeeded();
  void NeedAll(const PointwiseStatement& statement,
               const std::function<void(const std::string&)>& need) const;

  const PointwiseKernel* kernel_;
  const TilePlan* plan_;
  std::map<std::string, unsigned> depends_;
};

}  // namespace kernelopt
