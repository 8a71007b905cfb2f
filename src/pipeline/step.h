// The one wrapper that every step of the pipeline goes through: cancelled?
// disabled? done before? Else time it, verify it, record it, and tell about it.
//
//   StepRunner runner(environment);
//   StepResult result = KOPT_TRY(runner.Run({.name = "capture", .inputs = hash,
//       .run = [&] { ... }, .verify = [&](const StepResult&) { ... }}));
#pragma once

#include <functional>
#include <string>

#include "pipeline/environment.h"

namespace kernelopt {

struct StepResult {
  std::string message;      ///< what came of it, a few words: "3 graphs, 14 kernels"
  std::string data = "{}";  ///< JSON, recorded, and given back when the step is reused
};

struct StepSpec {
  std::string name;
  /// Names everything that the step depends on. A step that was done with the
  /// same inputs and still verifies is not done again; empty = always done.
  std::string inputs;
  std::string disabled;  ///< not empty: skipped, for this reason
  std::function<Result<StepResult>()> run;
  /// Holds for the result just made and for one that would be reused; may be empty.
  std::function<Status(const StepResult&)> verify;
};

class StepRunner {
 public:
  explicit StepRunner(Environment& environment) : environment_(environment) {}

  /// Errors: the step's own; kInterrupted when the user asked to stop.
  Result<StepResult> Run(const StepSpec& step);

 private:
  Status Record(const StepSpec& step, const std::string& state, const StepResult& result,
                double elapsed_s, const Error* error);
  /// True and the result, when the step need not be done again.
  Result<bool> Reuse(const StepSpec& step, StepResult* result);
  void Tell(const StepSpec& step, RunEvent::Kind kind, const std::string& message,
            const std::string& outcome, double elapsed_s);

  Environment& environment_;
};

}  // namespace kernelopt
