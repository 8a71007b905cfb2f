// Gate 3: is the model with its replacements as right as the compiler's and
// eager's? The worker measures (workers/model.h), this decides.
#pragma once

#include <string>
#include <vector>

#include "gates/verdict.h"

namespace kernelopt {

struct ModelCheck;  // workers/model.h

struct ModelRule {
  /// Kernel keys that must have been swapped, no more and no fewer.
  std::vector<std::string> expected_swaps;
  double rms_factor = 1.5, rms_slack = 0.1;  ///< stitched <= factor x yardstick + slack
  double max_factor = 3.0, max_slack = 1.0;
};

/// Reasons: not_swapped, unexpected_swap, no_comparisons, layout_changed, wrong_value,
/// wrong_integer, wrong_nonfinite, externs_changed, not_bitwise (random models),
/// no_float64, no_strict_setting, degenerate.
Verdict JudgeModel(const ModelCheck& check, const ModelRule& rule);

}  // namespace kernelopt
