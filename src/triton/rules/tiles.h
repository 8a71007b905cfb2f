// A pointwise kernel over tiles of rows and columns instead of a flat index.
//
//   TilePlan plan{.row = 511, .column_tile = 512, .rows = 4, .vector = 4};
//   std::string text = KOPT_TRY(EmitTiles(kernel, plan));
//
// The flat index is row * plan.row + column. A program takes `rows` rows at
// `column_tile` columns; a loop over tiles makes any grid right, so the grid's
// formula stays. What is computed for an element is computed by the same
// operations in the same order, but for chains of maximum and minimum, which
// may be taken in another order (exact up to the sign of zero). Loads of one
// address are made once for all elements of a thread.
//
// vector > 1: a thread takes that many neighbouring columns. Rows that are
// aligned are loaded in whole aligned vectors, of which the shifts are cut out
// in registers.
#pragma once

#include <string>

#include "base/result.h"
#include "triton/rules/pointwise.h"

namespace kernelopt {

struct TilePlan {
  int64_t row = 0;          ///< columns of a row; divides the kernel's numel
  int64_t column_tile = 0;  ///< a power of two
  int rows = 1;
  int vector = 1;  ///< a power of two, divides column_tile

  std::string ToString() const;  ///< "rows=4,columns=512,vector=4"
};

/// How the rows are grouped: rows of one group follow each other in the
/// innermost row variable, of this many values.
int64_t RowsOfGroup(const PointwiseKernel& kernel, int64_t row);

/// Errors: kUsage "not_tileable" with one sentence.
Result<std::string> EmitTiles(const PointwiseKernel& kernel, const TilePlan& plan);

}  // namespace kernelopt
