// Gate 3: is the model with its replacements as right as the compiler's and
// eager's? The worker measures (workers/model.h), this decides.
//
// Layout, non-finite values and integers are held in every setting; the error
// rule on the setting "strict" (TF32 off, deterministic), with the worse of
// compiler and eager as the yardstick. A model that draws random numbers must
// equal the compiled baseline bit for bit instead.
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
  /// Where no float64 run is possible: equality within the published 1e-4 of
  /// eager is enough, and where the profiler sees no launch they need not be
  /// counted. Weaker than the rule, and only when the user asks for it.
  bool allow_weaker = false;
  /// A swapped launch beside the compiler's on the model's own storages, in
  /// units of ulp + conditioning (gate 2's rule).
  double in_situ_rms = 1.5, in_situ_max = 8.0;
  double in_situ_own_factor = 3.0, in_situ_most = 24.0;
};

/// Reasons: not_swapped, unexpected_swap, no_comparisons, no_strict_setting,
/// no_float64, degenerate, externs_changed, layout_changed, wrong_nonfinite,
/// wrong_integer, wrong_value, compiler_wrong, not_bitwise, wrong_in_situ,
/// not_in_situ, launches_changed, no_launch_counts.
Verdict JudgeModel(const ModelCheck& check, const ModelRule& rule);

}  // namespace kernelopt
