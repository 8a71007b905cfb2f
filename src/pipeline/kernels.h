// The steps `search` and `certify`: one kernel after the other, in order of
// possible gain. What was found is in the store after every kernel, and every
// answer of the judge as soon as it is there, so that a killed run loses at
// most the candidate in flight.
#pragma once

#include "pipeline/run.h"
#include "pipeline/step.h"

namespace kernelopt {

/// Fills run.results. Errors: kInterrupted, the store's.
Result<StepResult> SearchKernels(Environment& environment, Run& run);

/// Certifies every winner in run.results. The same errors.
Result<StepResult> CertifyWinners(Environment& environment, Run& run);

/// The rule of gate 2 for a policy.
KernelRule RuleFor(const std::string& policy);

}  // namespace kernelopt
