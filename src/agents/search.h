// The search for one kernel: rewritten texts, configurations and cache hints, in
// the order of promise, compiled in parallel, timed against the compiler's kernel.
//
//   SearchTools tools{compiler, judge, device, "3.6.0"};
//   SearchOutcome outcome = SearchKernel(subject, tools, options, observer);
//   if (outcome.winner) ...   // screened, not yet certified (certify.h)
//
// Steps: the compiler's kernel is compiled again and must have the captured
// binary hash; successive halving over the ordered configurations; coordinate
// descent from the best; the rules' texts (triton/rules/rule.h), with a descent
// of their own where one is the best; warps, stages, register caps and cache
// hints on the best; the fastest that passes gates 1 and 2 (screening) wins.
// Given the same times from the judge, the search takes the same decisions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/judge.h"
#include "device/replacement.h"
#include "gates/kernel_gate.h"
#include "gates/sites.h"
#include "gates/verdict.h"
#include "triton/config_space.h"
#include "workers/compile.h"

namespace kernelopt {

/// The kernel that is searched, with all its call sites.
struct SearchSubject {
  std::string key;
  const Kernel* kernel = nullptr;
  /// At least one. Sites may have been launched in different configurations
  /// (each module tunes for itself); each is compared with its own.
  std::vector<BuiltSite> sites;
};

struct SearchTools {
  Compiler& compiler;
  Judge& judge;
  DeviceFacts device;
  std::string triton_version;
};

struct SearchOptions {
  size_t first_batch = 48;      ///< configurations of the first round
  size_t batch = 48;            ///< compiled and timed together: one straggler, not three
  size_t max_candidates = 400;  ///< compiled, of all steps
  int screen_rounds = 6, middle_rounds = 20, final_rounds = 60;
  size_t middle_count = 8, final_count = 3;
  /// A text that takes the compiler longer, and 10 times as long as the compiler's own
  /// kernel, is given up: it is unrolled beyond use.
  int compile_limit_ms = 10000;
  double near_floor = 1.03;  ///< stop when the best is within this of the floor
  double min_gain = 0.01;    ///< of the kernel's time; less is kept
  bool hints = true;         ///< cache hint variants
  bool rules = true;         ///< the rules' texts
  KernelRule rule;
  /// True when the time is up or the user asked to stop; asked between batches.
  std::function<bool()> stop = [] { return false; };
};

/// One candidate's way through the search, as data.
struct CandidateRecord {
  Replacement replacement;
  std::string step;  ///< "baseline", "first", "descent", "rules", "refine", "hints"
  bool compiled = false;
  std::string compile_reason;  ///< error code, or empty
  std::string binary_hash;
  int registers = 0;
  int64_t spill_bytes = 0;
  double baseline_us = 0;  ///< weighted over the sites, in the same interleaved rounds
  double time_us = 0;      ///< 0 = not timed
  double cold_us = 0, baseline_cold_us = 0;  ///< finalists only
  std::vector<Verdict> verdicts;
};

/// Told about every decision, in order; the store records them.
class SearchObserver {
 public:
  virtual ~SearchObserver() = default;
  /// After a candidate was compiled, timed or judged; the same candidate comes
  /// again when more is known of it.
  virtual void OnCandidate(const std::string& kernel_key, const CandidateRecord& record) = 0;
  /// One line of progress: "48 configurations: best 1.21x".
  virtual void OnProgress(const std::string& kernel_key, const std::string& line) = 0;
};

struct Winner {
  Replacement replacement;
  CompileOutput compiled;
  LaunchConfig baseline_config;         ///< of the first site
  CompileOutput baseline;               ///< the compiler's kernel in it
  double time_us = 0, baseline_us = 0;  ///< of one model call: all sites
  double cold_us = 0, baseline_cold_us = 0;
  Verdict screening;

  double GainUs() const { return baseline_us - time_us; }
};

struct SearchOutcome {
  std::optional<Winner> winner;
  /// "improved", or why the compiler's kernel is kept: not_compilable,
  /// baseline_differs, baseline_fails, not_certifiable, not_verifiable_here,
  /// at_the_floor, no_faster_candidate, none_passed, out_of_time.
  std::string reason;
  std::string message;  ///< one sentence
  int candidates = 0;
  bool stopped_early = false;  ///< by options.stop
};

/// The rules' texts for the kernel (triton/rules/rule.h), each in its configurations.
std::vector<Replacement> RuleReplacements(const SearchSubject& subject);

/// `observer` may be null.
SearchOutcome SearchKernel(const SearchSubject& subject, SearchTools tools,
                           const SearchOptions& options, SearchObserver* observer);

/// The compiler's own kernel as a replacement of itself (its text, its
/// configuration); also the start of every search.
Replacement BaselineReplacement(const SearchSubject& subject);

}  // namespace kernelopt
