// Putting certified winners together: which of them does the whole model keep?
//
// The set goes through gate 3; if it fails, the culprits are found by
// bisection and only they are dropped. Then gate 4; if the set is not
// faster, the kernels with a predicted gain above the noise are tried alone.
// Pure logic: the caller provides the two gates.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gates/verdict.h"

namespace kernelopt {

struct StitchPiece {
  std::string key;             ///< canonical kernel key
  double predicted_gain_us = 0;  ///< of one call, from the judge
};

struct StitchGates {
  /// Gate 3 over the model with exactly these kernels replaced.
  std::function<Result<Verdict>(const std::vector<std::string>& keys)> check;
  /// Gate 4 over the same.
  std::function<Result<Verdict>(const std::vector<std::string>& keys)> time;
};

struct DroppedPiece {
  std::string key;
  Verdict verdict;  ///< of the smallest set in which it was found to be to blame
};

struct StitchOutcome {
  std::vector<std::string> accepted;  ///< empty = the compiler's model is kept
  std::vector<DroppedPiece> dropped;
  Verdict correctness;  ///< of the accepted set, or the last that failed
  Verdict performance;
  std::string reason;   ///< "improved", "nothing_to_stitch", "wrong_model", "not_faster"...
  int checks = 0, timings = 0;
};

/// Errors are the gates' own (a worker that died), passed on. `noise_us`: gains
/// below it are left out in the second try.
Result<StitchOutcome> StitchAndProve(const std::vector<StitchPiece>& pieces,
                                     const StitchGates& gates, double noise_us);

}  // namespace kernelopt
