// Showing a run's events: terminal, plain lines, JSON lines, log file.
//
//   auto sink = MakeSink(OutputStyle::kTerminal, 1);   // file descriptor 1
//   TeeSink tee({sink.get(), log.get()});
//
// All sinks may be called from several threads. A terminal shows one live
// line, redrawn every half second so that a long unit of work is seen to be
// alive; lines that stay (a finished step, a note) scroll above it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/event.h"
#include "base/result.h"

namespace kernelopt {

enum class OutputStyle { kTerminal, kPlain, kJson, kQuiet };

/// A sink that writes to a file descriptor, which stays the caller's.
std::unique_ptr<EventSink> MakeSink(OutputStyle style, int descriptor);

/// Appends JSON lines with the time to a file. Errors: kEnvironment "not_writable".
Result<std::unique_ptr<EventSink>> MakeLogSink(const std::string& path, const Clock& clock);

/// Passes every event on to several sinks (not owned; null ones are left out).
class TeeSink : public EventSink {
 public:
  explicit TeeSink(std::vector<EventSink*> sinks);
  void Emit(const RunEvent& event) override;

 private:
  std::vector<EventSink*> sinks_;
};

/// The live line's text: what, n of m, best so far, time left, cut to `width`
/// columns with "..." in the message.
std::string LiveLine(const RunEvent& event, double elapsed_s, size_t width);

/// {"event":"progress","step":...}: one line, without the line end.
std::string JsonLine(const RunEvent& event);

}  // namespace kernelopt
