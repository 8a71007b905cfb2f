// What the command line prints, and how it ends.
#pragma once

#include <memory>
#include <string>

#include "base/event.h"
#include "base/progress.h"
#include "base/result.h"

namespace kernelopt {

/// Standard output and standard error of one command. Progress and results go
/// to standard output: JSON lines with `json`, a live line on a terminal,
/// plain lines elsewhere. Errors go to standard error as one sentence.
class Output {
 public:
  explicit Output(bool json);

  bool json() const { return json_; }
  EventSink& events() { return *sink_; }

  /// Prints `human` on a terminal or in a file, `data` (a JSON text) with --json.
  void Print(const std::string& human, const std::string& data);
  /// The exit code of a command that did its work and whose answer is no.
  void SetExitCode(int code) { exit_code_ = code; }
  /// Prints the error and gives the exit code.
  int Finish(const Status& status);

 private:
  bool json_;
  int exit_code_ = 0;
  std::unique_ptr<EventSink> sink_;
};

/// "kernelopt: WHERE: message" and the line end.
std::string ErrorLine(const Error& error);

}  // namespace kernelopt
