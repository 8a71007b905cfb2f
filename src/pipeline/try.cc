#include "pipeline/try.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "agents/timing.h"
#include "base/file.h"
#include "base/json.h"
#include "gates/static_gate.h"
#include "inductor/splice.h"
#include "pipeline/gpu_lock.h"
#include "pipeline/kernels.h"
#include "pipeline/optimize.h"
#include "pipeline/recording_judge.h"
#include "pipeline/records.h"
#include "pipeline/shadow_search.h"
#include "pipeline/show.h"
#include "pipeline/stitching.h"
#include "pipeline/try_file.h"

namespace kernelopt {
namespace {

/// As many as the finalists of a search get.
constexpr int kRounds = 60;

class Trier {
 public:
  Trier(Environment& environment, Run& run, const ExtractedKernel& kernel)
      : environment_(environment),
        run_(run),
        subject_(kernel.subject),
        stage_(environment.judge == nullptr ? kShadowStage : "screen"),
        recorder_(environment.store, run, kernel.subject, stage_) {
    trial_.kernel = kernel.work.name;
    trial_.key = kernel.work.key;
  }

  Result<Trial> Try(std::vector<Replacement> replacements) {
    for (Replacement& replacement : replacements) {
      CandidateRecord& record = candidates_.emplace_back().record;
      record.replacement = std::move(replacement);
      record.step = "try";
    }
    KOPT_CHECK_OK(CompileBaselines());
    KOPT_CHECK_OK(CheckStatically());
    if (environment_.judge != nullptr && AnyGood()) KOPT_CHECK_OK(Measure());
    if (environment_.judge == nullptr && AnyGood()) KOPT_CHECK_OK(ScreenWithoutGpu());
    for (const Candidate& candidate : candidates_) {
      KOPT_CHECK_OK(recorder_.Record(candidate.record));
    }
    Conclude();
    return std::move(trial_);
  }

 private:
  struct Candidate {
    CandidateRecord record;
    Binary binary;
    bool good = true;  ///< every gate so far

    const LaunchConfig& config() const { return record.replacement.steps.front().config; }
  };

  bool AnyGood() const {
    return std::ranges::any_of(candidates_, [](const Candidate& c) { return c.good; });
  }

  // Verdicts.

  void Tell(TrialVerdict told) {
    RunEvent event;
    event.message =
        fmt::format("gate {} {:<8} {}: {}{}", static_cast<int>(told.verdict.gate), told.stage,
                    told.verdict.accepted ? "accepted" : told.verdict.reason,
                    told.variant.empty() ? "" : told.variant + ": ", told.verdict.message);
    if (candidates_.size() > 1 && !told.configuration.empty()) {
      event.message += fmt::format(" ({})", told.configuration);
    }
    environment_.events.Emit(event);
    trial_.gates = std::max(trial_.gates, static_cast<int>(told.verdict.gate));
    trial_.verdicts.push_back(std::move(told));
  }

  /// A verdict on one candidate. One that accepts the text alone is no row of the
  /// store: what it compiled to has the last word on gate 1.
  void Say(Candidate& candidate, const std::string& stage, const Verdict& verdict) {
    candidate.good = candidate.good && verdict.accepted;
    TrialVerdict told{.stage = stage,
                      .replacement = candidate.record.replacement.Id(),
                      .configuration = candidate.config().ToString(),
                      .verdict = verdict};
    if (stage != "text" || !verdict.accepted) {
      candidate.record.verdicts.push_back(verdict);
      told.name = NameOf(candidate, verdict, stage_);
    }
    Tell(std::move(told));
  }

  std::string NameOf(const Candidate& candidate, const Verdict& verdict,
                     const std::string& stage) const {
    return VerdictName(KernelVerdictKey(run_, candidate.record.replacement, verdict.gate, stage,
                                        HashSites(subject_.sites)));
  }

  // The steps.

  Status CompileBaselines() {
    std::vector<CompileRequest> requests;
    std::vector<std::string> names;
    for (const BuiltSite& site : subject_.sites) {
      std::string name = site.compiler_config.ToString();
      if (baselines_.contains(name)) continue;
      requests.push_back(BaselineRequest(*subject_.kernel, site.compiler_config, site.binary_hash,
                                         run_.device.compute_capability));
      names.push_back(name);
      baselines_[name].config = site.compiler_config;
    }
    auto outputs = environment_.compiler.CompileAll(requests, [](size_t) {});
    for (size_t i = 0; i < outputs.size(); ++i) {
      baselines_[names[i]].compiled = KOPT_TRY(std::move(outputs[i]));
    }
    for (const BuiltSite& site : subject_.sites) {
      const std::string& made = baselines_.at(site.compiler_config.ToString()).compiled.binary_hash;
      // Without a GPU nothing of it runs, and a recording may be of another machine.
      if (environment_.judge == nullptr || site.binary_hash.empty() || site.binary_hash == made) {
        continue;
      }
      return Fail(
          ErrorKind::kEnvironment, "baseline_differs",
          fmt::format("the compiler's kernel compiles to {:.12} here and was {:.12} when it "
                      "was captured; capture the model again with `kernelopt optimize`",
                      made, site.binary_hash),
          trial_.kernel);
    }
    return {};
  }

  const Binary& Own() const {
    return baselines_.at(subject_.sites.front().compiler_config.ToString());
  }

  /// Gate 1, with the compile workers between its two halves.
  Status CheckStatically() {
    std::vector<CompileRequest> requests;
    std::vector<Candidate*> compiled;
    for (Candidate& candidate : candidates_) {
      Say(candidate, "text",
          JudgeText(candidate.record.replacement, *subject_.kernel, run_.triton_version));
      if (!candidate.good) continue;
      auto request = RequestFor(*subject_.kernel, candidate.record.replacement.steps.front(),
                                run_.device.compute_capability);
      Status grids;
      for (const BuiltSite& site : subject_.sites) {
        auto grid = ComputeGrid(*subject_.kernel, candidate.config(), site.numels);
        if (!grid) grids = std::unexpected(grid.error());
      }
      if (const Error* error = !request ? &request.error() : !grids ? &grids.error() : nullptr) {
        Say(candidate, "compile", Reject(Gate::kStatic, error->code, error->ToString()));
        continue;
      }
      requests.push_back(std::move(*request));
      compiled.push_back(&candidate);
    }
    auto outputs = environment_.compiler.CompileAll(requests, [](size_t) {});
    for (size_t i = 0; i < outputs.size(); ++i) {
      Candidate& candidate = *compiled[i];
      if (!outputs[i]) {
        if (outputs[i].error().kind == ErrorKind::kInterrupted) {
          return std::unexpected(outputs[i].error());
        }
        candidate.record.compile_reason = outputs[i].error().code;
        Say(candidate, "compile", CompileFailure(outputs[i].error()));
        continue;
      }
      candidate.record.compiled = true;
      candidate.record.binary_hash = outputs[i]->binary_hash;
      candidate.record.registers = outputs[i]->registers;
      candidate.record.spill_bytes = outputs[i]->spill_bytes;
      candidate.binary = {candidate.config(), std::move(*outputs[i])};
      Say(candidate, "binary",
          JudgeBinary(PairWith(candidate.binary), subject_.sites, run_.device));
    }
    return {};
  }

  KernelPair PairWith(const Binary& binary) const {
    KernelPair pair;
    pair.kernel = subject_.kernel;
    pair.baseline_config = Own().config;
    pair.baseline = &Own().compiled;
    pair.candidate_config = binary.config;
    pair.candidate = &binary.compiled;
    return pair;
  }

  TwinMaker MakeTwins() const {
    return {*subject_.kernel, Own().config, Own().compiled, run_.device.compute_capability,
            environment_.compiler};
  }

  /// Gates 2 to 4, while no other run measures on the GPU.
  Status Measure() {
    GpuLock lock = KOPT_TRY(GpuLock::Take(
        run_.device.uuid, environment_.cache,
        [&] {
          RunEvent event;
          event.message = "waiting for another run on this GPU";
          environment_.events.Emit(event);
        },
        environment_.cancelled));
    RecordingJudge judge(*environment_.judge, environment_.store, run_.gpu_id, run_.versions,
                         environment_.cancelled);
    judge.SetKernel(trial_.key);
    Candidate* best = KOPT_TRY(ScreenAndTime(judge));
    KOPT_CHECK_OK(judge.kept());
    if (best == nullptr) return {};
    KOPT_CHECK_OK(recorder_.Record(best->record));  // before what refers to it

    Winner winner;
    winner.replacement = best->record.replacement;
    winner.compiled = best->binary.compiled;
    winner.baseline_config = Own().config;
    winner.baseline = Own().compiled;
    winner.time_us = trial_.time_us = best->record.time_us;
    winner.baseline_us = trial_.baseline_us = best->record.baseline_us;
    run_.order = {trial_.key};
    KernelResult& result = run_.results[trial_.key];
    result.outcome.winner = std::move(winner);
    KOPT_TRY(CertifyWinners(environment_, run_));
    const Certificate& certificate = result.certificate;
    trial_.label = certificate.label;
    best->good = certificate.verdict.accepted;
    trial_.replacement = best->record.replacement.Id();
    Tell({.name = NameOf(*best, certificate.verdict, "certify"),
          .stage = "certify",
          .replacement = trial_.replacement,
          .configuration = best->config().ToString(),
          .verdict = certificate.verdict});
    if (!best->good) return {};
    return Stitch(best);
  }

  /// On the shadow device. What can't be evaluated there is not rejected for it.
  Status ScreenWithoutGpu() {
    const KernelRule rule = RuleFor(run_.options.policy);
    TwinMaker twins = MakeTwins();
    if (!ScreenOnShadow(PairWith(Own()), twins, subject_.sites, rule).accepted) return {};
    for (Candidate& candidate : candidates_) {
      if (!candidate.good) continue;
      const Verdict verdict =
          ScreenOnShadow(PairWith(candidate.binary), twins, subject_.sites, rule);
      KOPT_CHECK_OK(environment_.CheckCancelled());
      if (verdict.reason != "not_verifiable_here") Say(candidate, "shadow", verdict);
    }
    return {};
  }

  /// The fastest that passes the screening; null when none does.
  Result<Candidate*> ScreenAndTime(Judge& judge) {
    KernelRule rule = RuleFor(run_.options.policy);
    TwinMaker twins = MakeTwins();
    // What does not even accept the compiler's kernel can't judge another.
    Verdict own = ScreenKernel(judge, PairWith(Own()), twins, subject_.sites, rule);
    KOPT_CHECK_OK(environment_.CheckCancelled());
    if (!own.accepted) {
      bool here = own.reason == "not_verifiable_here";
      own = Reject(Gate::kKernel, here ? own.reason : "not_certifiable",
                   "the compiler's kernel against itself: " + own.message, own.evidence);
    }
    std::vector<Candidate*> passed;
    std::vector<const Binary*> binaries;
    for (Candidate& candidate : candidates_) {
      if (!candidate.good) continue;
      Say(candidate, "screen",
          own.accepted
              ? ScreenKernel(judge, PairWith(candidate.binary), twins, subject_.sites, rule)
              : own);
      KOPT_CHECK_OK(environment_.CheckCancelled());
      if (!candidate.good) continue;
      passed.push_back(&candidate);
      binaries.push_back(&candidate.binary);
    }
    if (passed.empty()) return nullptr;
    SiteTimer timer(subject_, judge, baselines_);
    KOPT_CHECK_OK(timer.MeasureBaseline(kRounds));
    auto timings = timer.Time(binaries, kRounds, true, CacheState::kAsInModel);
    KOPT_CHECK_OK(environment_.CheckCancelled());
    Candidate* best = nullptr;
    for (size_t i = 0; i < passed.size(); ++i) {
      CandidateRecord& record = passed[i]->record;
      if (timings[i].time_us <= 0 || timings[i].baseline_us <= 0) {
        Say(*passed[i], "screen",
            JudgeFailure(Gate::kKernel, {ErrorKind::kInternal, timings[i].failure,
                                         "it failed while it was timed", trial_.kernel}));
        continue;
      }
      record.time_us = timings[i].time_us;
      record.baseline_us = timings[i].baseline_us;
      if (best == nullptr ||
          record.time_us / record.baseline_us < best->record.time_us / best->record.baseline_us) {
        best = passed[i];
      }
    }
    return best;
  }

  /// Gates 3 and 4 of every variant that has the kernel.
  Status Stitch(Candidate* best) {
    KOPT_TRY(StitchVariants(environment_, run_));
    // The last of each variant and gate: what was said in this trial or recalled for it.
    std::string set = NameSet(run_, {trial_.key});
    std::vector<VerdictRecord> said = KOPT_TRY(environment_.store.VerdictsOn(set));
    for (int gate : {3, 4}) {
      for (const Variant& variant : run_.extraction.capture.variants) {
        const VerdictRecord* last = nullptr;
        for (const VerdictRecord& record : said) {
          if (record.key.gate == gate && record.key.variant == variant.Name()) last = &record;
        }
        if (last == nullptr) continue;
        Tell({.name = VerdictName(last->key),
              .stage = "model",
              .variant = variant.Name(),
              .verdict = FromRecord(*last)});
      }
    }
    for (size_t v = 0; v < run_.variants.size(); ++v) {
      const VariantResult& result = run_.variants[v];
      if (result.improved() || result.stitch.reason == "nothing_to_stitch") continue;
      best->good = false;
      if (result.stitch.reason != "not_confirmed") continue;
      Tell({.stage = "model",
            .variant = run_.extraction.capture.variants[v].Name(),
            .verdict = Reject(Gate::kPerformance, result.stitch.reason,
                              "what gate 4 saw did not come again in a second measurement")});
    }
    return {};
  }

  void Conclude() {
    trial_.accepted = AnyGood();
    const TrialVerdict* decided = &trial_.verdicts.back();
    if (!trial_.accepted) {
      // Of several candidates, the one that went furthest.
      decided = nullptr;
      for (const TrialVerdict& told : trial_.verdicts) {
        if (told.verdict.accepted) continue;
        if (decided == nullptr || told.verdict.gate >= decided->verdict.gate) decided = &told;
      }
      assert(decided != nullptr);
    }
    trial_.reason = decided->verdict.reason;
    trial_.message = decided->verdict.message;
    if (trial_.replacement.empty()) trial_.replacement = decided->replacement;
  }

  Environment& environment_;
  Run& run_;
  const SearchSubject& subject_;
  const std::string stage_;  ///< of verdicts on candidates in the store
  CandidateRecorder recorder_;
  std::vector<Candidate> candidates_;
  std::map<std::string, Binary> baselines_;
  Trial trial_;
};

/// The run's capture, read and made ready to judge at.
Status Prepare(Environment& environment, Run& run) {
  const bool recorded = environment.judge == nullptr;
  const std::string folder = run.paths.Capture();
  if (!PathExists(folder + "/capture.json")) {
    return Fail(ErrorKind::kUsage, "no_capture",
                fmt::format("has no capture yet; `kernelopt resume {}` makes it", run.paths.folder),
                run.paths.folder);
  }
  if (recorded) {
    run.versions = KOPT_TRY(environment.compiler.Versions());
  } else {
    KOPT_CHECK_OK(PrepareRun(environment, run));
    KOPT_CHECK_OK(PrepareJudge(environment, run));
  }
  KOPT_TRY(ExtractStep(environment, run, folder));
  if (recorded) {
    run.device = DeviceOfRecord(run.extraction.capture);
    run.triton_version = run.extraction.capture.triton;
  }
  return {};
}

}  // namespace

Result<Trial> TryCandidate(Environment& environment, Run& run, const std::string& name,
                           const std::string& file) {
  std::string text = KOPT_TRY(ReadFile(file));
  FoundKernel found = KOPT_TRY(FindKernel(environment.store, name));
  KOPT_CHECK_OK(Prepare(environment, run));
  const ExtractedKernel* kernel = run.extraction.Find(found.key);
  if (kernel == nullptr) {
    return Fail(ErrorKind::kUsage, "no_such_kernel",
                fmt::format("{} is not in the capture any more", found.name), run.paths.folder);
  }
  if (!kernel->refused.empty()) {
    return Fail(ErrorKind::kUsage, kernel->refused,
                "is left as the compiler made it: " + kernel->why, found.name);
  }
  std::vector<Replacement> candidates = KOPT_TRY(ReadCandidates(text, file, kernel->subject));
  return Trier(environment, run, *kernel).Try(std::move(candidates));
}

std::string ClosingLines(const Run& run, const Trial& trial) {
  std::string text;
  if (trial.time_us > 0) {
    text += fmt::format("{:.2f} us instead of {:.2f} us ({:.3f}x) in all launches of one call\n",
                        trial.time_us, trial.baseline_us, trial.baseline_us / trial.time_us);
  }
  if (!trial.accepted) {
    text += fmt::format("rejected by gate {}: {}: {}\n", trial.gates, trial.reason, trial.message);
  } else if (trial.gates < static_cast<int>(Gate::kPerformance)) {
    text +=
        trial.gates < static_cast<int>(Gate::kKernel)
            ? "accepted by gate 1; gates 2 to 4 need a GPU and a run on a model, so that nothing "
              "is known of what it computes\n"
            : "accepted by gate 1 and the shadow device's screening; certification and gates 3 and "
              "4 need a GPU and a run on a model\n";
  } else {
    text += fmt::format("accepted by all gates, {}\n", trial.label);
  }
  text += fmt::format("`kernelopt show {} {}` has all verdicts", run.paths.folder, trial.kernel);
  return text;
}

Json ToJson(const Trial& trial) {
  Json verdicts = Json::array();
  for (const TrialVerdict& told : trial.verdicts) {
    Json verdict = VerdictToJson(told.verdict);
    verdict["verdict"] = told.name;
    verdict["stage"] = told.stage;
    verdict["replacement"] = told.replacement;
    verdict["configuration"] = told.configuration;
    verdict["variant"] = told.variant;
    verdicts.push_back(std::move(verdict));
  }
  return {{"kernel", trial.kernel},
          {"key", trial.key},
          {"replacement", trial.replacement},
          {"accepted", trial.accepted},
          {"gates", trial.gates},
          {"reason", trial.reason},
          {"message", trial.message},
          {"label", trial.label},
          {"time_us", trial.time_us},
          {"baseline_us", trial.baseline_us},
          {"verdicts", std::move(verdicts)}};
}

}  // namespace kernelopt
