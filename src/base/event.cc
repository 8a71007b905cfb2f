#include "base/event.h"

namespace kernelopt {

std::string_view ToString(RunEvent::Kind kind) {
  switch (kind) {
    case RunEvent::Kind::kStepBegin:
      return "step_begin";
    case RunEvent::Kind::kProgress:
      return "progress";
    case RunEvent::Kind::kStepEnd:
      return "step_end";
    case RunEvent::Kind::kNote:
      return "note";
    case RunEvent::Kind::kResult:
      return "result";
    case RunEvent::Kind::kError:
      return "error";
  }
  return "note";
}

StepProgress::StepProgress(EventSink& sink, const Clock& clock, std::string step, int64_t total)
    : sink_(sink), clock_(clock), step_(std::move(step)), total_(total), begin_(clock.Seconds()) {}

void StepProgress::Advance(const std::string& message, double best) {
  ++done_;
  if (best > 0) best_ = best;
  Send(message);
}

void StepProgress::Say(const std::string& message) {
  Send(message);
}

void StepProgress::Send(const std::string& message) {
  RunEvent event;
  event.kind = RunEvent::Kind::kProgress;
  event.step = step_;
  event.message = message;
  event.done = done_;
  event.total = total_;
  event.best = best_;
  event.elapsed_s = ElapsedSeconds();
  if (done_ > 0 && total_ > done_) event.left_s = event.elapsed_s / done_ * (total_ - done_);
  sink_.Emit(event);
}

}  // namespace kernelopt
