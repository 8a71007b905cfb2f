#include "pipeline/shadow_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/plural.h"
#include "gates/static_gate.h"
#include "pipeline/kernels.h"
#include "pipeline/records.h"
#include "shadow/shadow_judge.h"
#include "triton/config_space.h"

namespace kernelopt {
namespace {

/// Configurations a kernel, and rewritten texts: a search on a GPU goes through
/// hundreds, here each takes a second of evaluation.
constexpr size_t kConfigurations = 4;
constexpr size_t kRewritten = 4;

/// Lanes that one launch computes, of kernels that are larger: 50 ms.
constexpr int64_t kWork = 4'000'000;
/// The same where the parts of two grids don't correspond and both run whole.
constexpr int64_t kMostWork = 100'000'000;

struct Counts {
  size_t candidates = 0, passed = 0, screened = 0;
  std::map<std::string, size_t> rejected;  ///< reason -> how many
};

/// The compiler's own kernel first, then candidates in the order of promise.
std::vector<Replacement> Candidates(const Run& run, const ExtractedKernel& kernel) {
  const Replacement baseline = BaselineReplacement(kernel.subject);
  const LaunchConfig& own = baseline.steps.at(0).config;
  ConfigLimits limits;
  limits.sm_count = run.device.sm_count;
  const ConfigSpace space(*kernel.work.kernel, own, kernel.subject.sites.front().numels, limits);
  std::vector<Replacement> replacements = {baseline};
  for (const LaunchConfig& config : space.Ordered()) {
    if (replacements.size() > kConfigurations) break;
    if (config == own) continue;
    Replacement& candidate = replacements.emplace_back(baseline);
    candidate.steps[0].config = config;
    candidate.origin = "configuration";
    candidate.change =
        fmt::format("launched with {} instead of {}", config.ToString(), own.ToString());
  }
  std::vector<Replacement> rewritten = RuleReplacements(kernel.subject);
  if (rewritten.size() > kRewritten) rewritten.resize(kRewritten);
  std::ranges::move(rewritten, std::back_inserter(replacements));
  return replacements;
}

class KernelScreen {
 public:
  KernelScreen(Environment& environment, Run& run, const ExtractedKernel& kernel,
               StepProgress& progress)
      : environment_(environment), run_(run), kernel_(kernel), progress_(progress) {}

  Status Go(Counts* counts) {
    const std::vector<Replacement> replacements = Candidates(run_, kernel_);
    std::vector<CompileRequest> requests;
    for (const Replacement& candidate : replacements) {
      requests.push_back(KOPT_TRY(
          RequestFor(*kernel_.work.kernel, candidate.steps[0], run_.device.compute_capability)));
    }
    const auto outputs = environment_.compiler.CompileAll(requests, [](size_t) {});
    if (!outputs[0]) return std::unexpected(outputs[0].error());
    // What can't be evaluated for the compiler's kernel can't be for another.
    TwinMaker twins(*kernel_.work.kernel, replacements[0].steps[0].config, *outputs[0],
                    run_.device.compute_capability, environment_.compiler);
    const Verdict own = ScreenOnShadow(PairWith(replacements, 0, *outputs[0], *outputs[0]), twins,
                                       kernel_.subject.sites, RuleFor(run_.options.policy));
    SearchOutcome& outcome = run_.results[kernel_.work.key].outcome;
    outcome.reason = "not_measured";
    outcome.message = own.accepted
                          ? "not measured: only a GPU can tell which candidate is faster"
                          : "not measured, and not to be evaluated without a GPU: " + own.message;
    outcome.candidates = static_cast<int>(replacements.size()) - 1;
    CandidateRecorder recorder(environment_.store, run_, kernel_.subject, kShadowStage);
    for (size_t i = 1; i < replacements.size(); ++i) {
      KOPT_CHECK_OK(environment_.CheckCancelled());
      progress_.Say(
          fmt::format("{}: candidate {} of {}", kernel_.work.name, i, replacements.size() - 1));
      CandidateRecord record;
      record.replacement = replacements[i];
      record.step = "shadow";
      Verdict verdict = JudgeText(replacements[i], *kernel_.work.kernel, run_.triton_version);
      if (verdict.accepted) {
        verdict = outputs[i] ? Screen(PairWith(replacements, i, *outputs[0], *outputs[i]), twins,
                                      own, &record.verdicts)
                             : CompileFailure(outputs[i].error());
      }
      Count(verdict, counts);
      record.verdicts.push_back(std::move(verdict));
      KOPT_CHECK_OK(recorder.Record(record));
    }
    return {};
  }

 private:
  KernelPair PairWith(const std::vector<Replacement>& replacements, size_t i,
                      const CompileOutput& baseline, const CompileOutput& candidate) const {
    return {.kernel = kernel_.work.kernel,
            .baseline_config = replacements[0].steps[0].config,
            .candidate_config = replacements[i].steps[0].config,
            .baseline = &baseline,
            .candidate = &candidate};
  }

  /// Gate 1 on the binary, then gate 2; the last verdict, others before it in `passed`.
  Verdict Screen(const KernelPair& pair, TwinMaker& twins, const Verdict& own,
                 std::vector<Verdict>* passed) const {
    Verdict verdict = JudgeBinary(pair, kernel_.subject.sites, run_.device);
    if (!verdict.accepted || !own.accepted) return verdict;
    passed->push_back(std::move(verdict));
    return ScreenOnShadow(pair, twins, kernel_.subject.sites, RuleFor(run_.options.policy));
  }

  static void Count(const Verdict& verdict, Counts* counts) {
    ++counts->candidates;
    counts->screened += verdict.gate == Gate::kKernel;
    // Too large to be evaluated is no fault.
    if (verdict.accepted || verdict.reason == "not_verifiable_here") {
      ++counts->passed;
    } else {
      ++counts->rejected[verdict.reason];
    }
  }

  Environment& environment_;
  Run& run_;
  const ExtractedKernel& kernel_;
  StepProgress& progress_;
};

}  // namespace

Verdict ScreenOnShadow(const KernelPair& pair, TwinMaker& twins,
                       const std::vector<BuiltSite>& sites, const KernelRule& rule) {
  ShadowJudge judge({.work = kWork, .most_work = kMostWork});
  Verdict verdict = ScreenKernel(judge, pair, twins, sites, rule);
  if (verdict.accepted) {
    verdict.message += judge.last().share < 1
                           ? fmt::format(", {:.2g} % of the programs, on the shadow device",
                                         100 * judge.last().share)
                           : ", all programs, on the shadow device";
  }
  return verdict;
}

Result<StepResult> SearchOnShadow(Environment& environment, Run& run) {
  StepProgress progress(environment.events, environment.clock, "search",
                        static_cast<int64_t>(run.order.size()));
  const double end = environment.clock.Seconds() + run.options.budget_s;
  Counts counts;
  size_t kernels = 0;
  for (const std::string& key : run.order) {
    if (environment.clock.Seconds() >= end) break;
    const ExtractedKernel& kernel = *run.extraction.Find(key);
    progress.Say(kernel.work.name);
    KOPT_CHECK_OK(KernelScreen(environment, run, kernel, progress).Go(&counts));
    progress.Advance(kernel.work.name);
    ++kernels;
  }
  std::string message = fmt::format(
      "{} of {} for {} pass gate 1 and, {} of them, gate 2's screening on the shadow "
      "device",
      counts.passed, Plural(counts.candidates, "candidate"), Plural(kernels, "kernel"),
      counts.screened);
  for (const auto& [reason, count] : counts.rejected) {
    message += fmt::format(", {} {}", count, reason);
  }
  return StepResult{std::move(message)};
}

}  // namespace kernelopt
