// What a run tells the person or program that watches it.
//
// The steps emit RunEvents; sinks show them (base/progress.h): a live line on
// a terminal, plain lines otherwise, JSON lines with --json, and the run's log.
//
//   StepProgress progress(events, clock, "search", kernels.size());
//   for (...) { ...; progress.Advance("pointwise_3", best); }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace kernelopt {

struct RunEvent {
  enum class Kind { kStepBegin, kProgress, kStepEnd, kNote, kResult, kError };
  Kind kind = Kind::kNote;
  std::string step;      ///< "capture", "search", ...; empty outside of a step
  std::string message;   ///< a few words or one sentence
  int64_t done = 0;      ///< units of work finished
  int64_t total = 0;     ///< of so many; 0 = not known
  double best = 0;       ///< best speed-up so far; 0 = none yet
  double left_s = -1;    ///< estimated seconds to the step's end; negative = not known
  double elapsed_s = 0;  ///< of the step
  std::string outcome;   ///< kStepEnd: done | reused | skipped | failed
  std::string data;      ///< text of a JSON object: its members join the --json line
};

/// "step_begin", "progress", ...
std::string_view ToString(RunEvent::Kind kind);

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void Emit(const RunEvent& event) = 0;
};

/// Counts the units of one step and estimates the time left from their mean.
class StepProgress {
 public:
  StepProgress(EventSink& sink, const Clock& clock, std::string step, int64_t total);

  /// One unit is finished.
  void Advance(const std::string& message, double best = 0);
  /// Something is going on inside the current unit.
  void Say(const std::string& message);
  /// The number of units turned out to be another.
  void SetTotal(int64_t total) { total_ = total; }
  double ElapsedSeconds() const { return clock_.Seconds() - begin_; }

 private:
  void Send(const std::string& message);

  EventSink& sink_;
  const Clock& clock_;
  std::string step_;
  int64_t total_;
  int64_t done_ = 0;
  double best_ = 0;
  double begin_;
};

}  // namespace kernelopt
