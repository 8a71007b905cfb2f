// One verdict of a run again, alone: `kernelopt replay RUN VERDICT`.
#pragma once

#include <string>

#include "base/json_value.h"
#include "pipeline/run.h"

namespace kernelopt {

struct ReplayedVerdict {
  std::string text;
  JsonValue data;
};

/// `name`: as `show` prints it, or its beginning. Nothing is recorded, and
/// nothing that was recorded is taken for an answer, but the capture is.
/// Errors: kUsage "no_such_verdict", "ambiguous_verdict"; kEnvironment "no_gpu"
/// for verdicts that need one; those of the gates' tools.
Result<ReplayedVerdict> ReplayVerdict(Environment& environment, Run& run, const std::string& name);

}  // namespace kernelopt
