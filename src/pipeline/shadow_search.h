// The search where there is no GPU: candidates in the order of promise, through gate 1
// and, on the shadow device, through gate 2's screening. Nothing is timed, so that none
// is called the best, and nothing is accepted; what is rejected here is wrong anywhere.
#pragma once

#include <string>

#include "pipeline/run.h"
#include "pipeline/step.h"

namespace kernelopt {

/// Over the kernels of run.order; candidates and verdicts go into the store. Verdicts of
/// the shadow device have a stage of their own (kShadowStage), so that a run on a GPU
/// doesn't take them for its own.
Result<StepResult> SearchOnShadow(Environment& environment, Run& run);

/// Gate 2's screening on the shadow device; the message says of which share of the
/// programs.
Verdict ScreenOnShadow(const KernelPair& pair, TwinMaker& twins,
                       const std::vector<BuiltSite>& sites, const KernelRule& rule);

}  // namespace kernelopt
