#include "pipeline/step.h"

#include <nlohmann/json.hpp>

#include "base/fail_point.h"
#include "base/json.h"

namespace kernelopt {

Result<StepResult> StepRunner::Run(const StepSpec& step) {
  KOPT_CHECK_OK(environment_.CheckCancelled());
  StepResult result;
  if (!step.disabled.empty()) {
    result.message = step.disabled;
    KOPT_CHECK_OK(Record(step, "skipped", result, 0, nullptr));
    Tell(step, RunEvent::Kind::kStepEnd, step.disabled, "skipped", 0);
    return result;
  }
  if (KOPT_TRY(Reuse(step, &result))) {
    Tell(step, RunEvent::Kind::kStepEnd, result.message + ", from before", "reused", 0);
    return result;
  }

  KOPT_CHECK_OK(Record(step, "started", {}, 0, nullptr));
  Tell(step, RunEvent::Kind::kStepBegin, "", "", 0);
  double begin = environment_.clock.Seconds();
  FailPoint("step.begin");
  auto made = step.run();
  if (made && step.verify) {
    if (Status verified = step.verify(*made); !verified) {
      made = std::unexpected(std::move(verified).error());
    }
  }
  double elapsed_s = environment_.clock.Seconds() - begin;
  if (!made) {
    bool interrupted = made.error().kind == ErrorKind::kInterrupted;
    Tell(step, RunEvent::Kind::kStepEnd, made.error().ToString(), "failed", elapsed_s);
    // The step's own error is what the user must see, also when the disk that
    // it can't be recorded on is the reason for both.
    (void)Record(step, interrupted ? "interrupted" : "failed", {}, elapsed_s, &made.error());
    return made;
  }
  FailPoint("step.end");
  KOPT_CHECK_OK(Record(step, "done", *made, elapsed_s, nullptr));
  FailPoint("step.done");
  Tell(step, RunEvent::Kind::kStepEnd, made->message, "done", elapsed_s);
  return made;
}

Result<bool> StepRunner::Reuse(const StepSpec& step, StepResult* result) {
  if (step.inputs.empty()) return false;
  auto last = KOPT_TRY(environment_.store.LastStep(step.name));
  if (!last || last->state != "done") return false;
  auto detail = ParseJson(last->detail, "step");
  if (!detail || detail->value("inputs", "") != step.inputs) return false;
  StepResult before;
  before.message = detail->value("message", "");
  before.data = DumpJson(detail->value("data", Json::object()));
  if (step.verify && !step.verify(before)) return false;  // its files were changed: do it again
  *result = std::move(before);
  return true;
}

Status StepRunner::Record(const StepSpec& step, const std::string& state, const StepResult& result,
                          double elapsed_s, const Error* error) {
  Json detail;
  if (!step.inputs.empty()) detail["inputs"] = step.inputs;
  if (!result.message.empty()) detail["message"] = result.message;
  if (elapsed_s > 0) detail["elapsed_s"] = elapsed_s;
  if (error != nullptr) {
    detail["code"] = error->code;
    detail["message"] = error->ToString();
  }
  detail["data"] = KOPT_TRY(ParseJson(result.data, "the result of step " + step.name));
  StepRecord record;
  record.name = step.name;
  record.state = state;
  record.detail = DumpJson(detail);
  return environment_.store.RecordStep(std::move(record));
}

void StepRunner::Tell(const StepSpec& step, RunEvent::Kind kind, const std::string& message,
                      const std::string& outcome, double elapsed_s) {
  RunEvent event;
  event.kind = kind;
  event.step = step.name;
  event.message = message;
  event.outcome = outcome;
  event.elapsed_s = elapsed_s;
  environment_.events.Emit(event);
}

}  // namespace kernelopt
