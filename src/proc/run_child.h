// A command run to its end.
//
//   RunOptions options{.command = {.argv = {"ptxas", "--version"}}, .limit_ms = 10000};
//   RunResult result = KOPT_TRY(RunChild(options));
//   if (result.outcome == RunOutcome::kExited && result.status.ok()) Use(result.out);
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "proc/process.h"

namespace kernelopt {

struct RunOptions {
  Command command;
  std::string input;  ///< its standard input
  int64_t limit_ms = 60000;
  size_t max_out_bytes = size_t{64} << 20;  ///< of standard output
};

enum class RunOutcome {
  kExited,         ///< by itself: `status` has an exit code
  kSignal,         ///< a signal ended it: `status` has its number
  kTimeout,        ///< its group was killed at the time limit
  kTooMuchOutput,  ///< its group was killed at max_out_bytes
};

struct RunResult {
  RunOutcome outcome = RunOutcome::kExited;
  ExitStatus status;
  std::string out;       ///< all of standard output
  std::string err_tail;  ///< the last 64 KiB of standard error
  int64_t wall_ms = 0;
};

/// Errors: those of Process::Start; kInterrupted "interrupted" (base/cancel.h),
/// with the group killed.
Result<RunResult> RunChild(const RunOptions& options);

}  // namespace kernelopt
