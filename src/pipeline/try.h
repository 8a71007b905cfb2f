// One hand-written candidate through all gates: `kernelopt try RUN KERNEL CANDIDATE.py`.
//
// It takes the way that a search's winner takes: gate 1 on its text, compiled,
// gate 1 on what it compiled to, screened, certified, and, alone, through gates 3
// and 4 of the model. Of several configurations the fastest that passes the
// screening goes on. Every verdict is in the run's store, where `show` and
// `replay` find it. Nothing is packed.
#pragma once

#include <string>
#include <vector>

#include "gates/verdict.h"
#include "pipeline/run.h"

namespace kernelopt {

struct TrialVerdict {
  std::string name = {};         ///< for `replay`; empty where the store has no row of its own
  std::string stage = {};        ///< "text" | "compile" | "binary" | "screen" | "shadow" |
                                 ///< "certify" | "model"
  std::string replacement = {};  ///< content hash; empty for gates 3 and 4, as is the next
  std::string configuration = {};
  std::string variant = {};  ///< gates 3 and 4
  Verdict verdict = {};
};

struct Trial {
  std::string kernel, key;
  std::string replacement;              ///< content hash of the one that went furthest
  bool accepted = false;                ///< by every gate that ran
  int gates = 0;                        ///< the last gate that said something
  std::string reason;                   ///< "ok", or the code that it was rejected for
  std::string message;                  ///< one sentence
  std::string label;                    ///< "bitwise" | "within rule" when certified
  double time_us = 0, baseline_us = 0;  ///< all launches of one model call; 0 = not timed
  std::vector<TrialVerdict> verdicts;   ///< in the order in which they were given
};

/// `kernel` as FindKernel (show.h) takes it; `file` is the candidate's path
/// (try_file.h). Each verdict is also told as a note when it is there. Errors are
/// about the run, the file or the machine, never about the candidate: kUsage
/// "no_such_kernel", "ambiguous_kernel", "no_capture", "bad_configuration", the
/// code that the kernel is left alone for; kEnvironment "no_gpu",
/// "baseline_differs"; those of the gates' tools.
Result<Trial> TryCandidate(Environment& environment, Run& run, const std::string& kernel,
                           const std::string& file);

/// The lines that end the command, and its answer as JSON.
std::string ClosingLines(const Run& run, const Trial& trial);
Json ToJson(const Trial& trial);

}  // namespace kernelopt
