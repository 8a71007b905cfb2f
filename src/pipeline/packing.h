// The step `pack`: what was proven as a pack, what was found as facts of the
// store, from which the report is made.
#pragma once

#include <string>

#include "pipeline/run.h"
#include "pipeline/step.h"

namespace kernelopt {

/// How a run ended, for the user: "improved", or "kept" with its reason.
struct Outcome {
  std::string result;   ///< improved | kept | not_measured | unfinished
  std::string reason;   ///< reason code; empty when improved
  std::string message;  ///< one sentence
  std::string note;     ///< one more sentence, or empty (eager is faster, ...)
};

/// Of a run whose steps are done.
Outcome DecideOutcome(const Run& run);

/// Kernels, estimates, variants and the machine as facts (report/report.h).
Status RecordFacts(Environment& environment, const Run& run, const Outcome& outcome);

/// Writes the pack, if anything was proven, and report.html. Sets run.pack.
Result<StepResult> WritePackAndReport(Environment& environment, Run& run);

/// The lines that end a run on the terminal: the outcome, and how to use it.
std::string ClosingLines(const Run& run, const Outcome& outcome);

}  // namespace kernelopt
