// Putting certified winners together: which of them does the whole model keep?
//
// The set goes through gate 3; if it fails, the culprits are found by
// bisection and only they are dropped. Then gate 4; if the set is not
// faster, the kernels whose predicted gain is above the noise are tried alone,
// once. Whatever is accepted has passed both gates as exactly this set. Pure
// logic: the caller provides the two gates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gates/verdict.h"

namespace kernelopt {

struct StitchPiece {
  std::string key;               ///< canonical kernel key
  double predicted_gain_us = 0;  ///< of one call of the model, from the judge
};

struct StitchGates {
  /// Gate 3 over the model with exactly these kernels replaced.
  std::function<Result<Verdict>(const std::vector<std::string>& keys)> check;
  /// Gate 4 over the same.
  std::function<Result<Verdict>(const std::vector<std::string>& keys)> time;
};

struct DroppedPiece {
  std::string key;
  Verdict verdict;  ///< of the first set that failed with it and passed without
};

struct StitchOutcome {
  std::vector<std::string> accepted;  ///< largest gain first; empty = the compiler's model is kept
  std::vector<DroppedPiece> dropped;
  Verdict correctness;  ///< the last of gate 3: of the accepted set if there is one
  Verdict performance;  ///< the last of gate 4
  /// "improved", "nothing_to_stitch", or the reason of the verdict that
  /// decided: "wrong_value", "not_faster", "degenerate"...
  std::string reason;
  int checks = 0, timings = 0;
};

/// Errors are the gates' own (a worker that died), passed on. Gains up to
/// `noise_us` are left out in the second timing.
Result<StitchOutcome> StitchAndProve(std::vector<StitchPiece> pieces, const StitchGates& gates,
                                     double noise_us);

}  // namespace kernelopt
