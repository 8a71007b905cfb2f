#include "pipeline/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"
#include "pipeline/recording_judge.h"
#include "pipeline/records.h"

namespace kernelopt {
namespace {

/// Records candidates and shows progress; a store that fails ends the search.
class Observer : public SearchObserver {
 public:
  Observer(CandidateRecorder recorder, RecordingJudge& judge, StepProgress& progress,
           std::string name)
      : recorder_(std::move(recorder)),
        judge_(judge),
        progress_(progress),
        name_(std::move(name)) {}

  void OnCandidate(const std::string&, const CandidateRecord& record) override {
    if (status) status = recorder_.Record(record);
    if (!status) judge_.Refuse(status);
  }
  void OnProgress(const std::string&, const std::string& line) override {
    progress_.Say(name_ + ": " + line);
  }

  Status status;

 private:
  CandidateRecorder recorder_;
  RecordingJudge& judge_;
  StepProgress& progress_;
  std::string name_;
};

/// A kernel's share of the time that is left, by its share of the gain that is
/// left; small ones get enough for a first batch.
double DeadlineFor(const Run& run, size_t index, double now, double end) {
  std::map<std::string, double> gains;
  for (const ModelEstimate& estimate : run.estimates) {
    for (const KernelEstimate& kernel : estimate.kernels) gains[kernel.key] += kernel.gain_us;
  }
  double rest = 0;
  for (size_t i = index; i < run.order.size(); ++i) rest += gains[run.order[i]];
  double share = rest > 0 ? gains[run.order[index]] / rest : 1;
  return std::min(end, now + std::max(10.0, (end - now) * share));
}

std::string SearchInputs(const Run& run, const SearchSubject& subject) {
  return Sha256Hex(DumpJson({subject.key, HashSites(subject.sites), run.gpu_id, run.versions,
                             run.options.policy, kDataVersion}));
}

/// The finished search of an earlier process, if it still holds.
Result<std::optional<SearchOutcome>> Recall(Environment& environment, const Run& run,
                                            const SearchSubject& subject,
                                            const std::string& inputs) {
  auto fact = KOPT_TRY(environment.store.Fact("search/" + subject.key));
  if (!fact) return std::nullopt;
  Json json = KOPT_TRY(ParseJson(*fact, "a recorded search"));
  if (json.value("inputs", "") != inputs) return std::nullopt;
  SearchOutcome outcome;
  outcome.reason = json.value("reason", "");
  outcome.message = json.value("message", "");
  outcome.candidates = json.value("candidates", 0);
  if (json.contains("winner")) {
    auto winner = WinnerFromJson(json["winner"], subject, environment.compiler,
                                 run.device.compute_capability);
    if (!winner) return std::nullopt;  // searched again, with the recorded answers
    outcome.winner = std::move(*winner);
  }
  return outcome;
}

Status Remember(Environment& environment, const SearchSubject& subject,
                const SearchOutcome& outcome, const std::string& inputs) {
  Json json = {{"inputs", inputs},
               {"reason", outcome.reason},
               {"message", outcome.message},
               {"candidates", outcome.candidates}};
  if (outcome.winner) json["winner"] = WinnerToJson(*outcome.winner);
  return environment.store.SetFact("search/" + subject.key, DumpJson(json));
}

/// "pointwise_3 1.21x", for the line that stays.
std::string Describe(const SearchOutcome& outcome) {
  if (!outcome.winner) return outcome.reason;
  return fmt::format("{:.2f}x", outcome.winner->baseline_us / outcome.winner->time_us);
}

void Note(Environment& environment, const std::string& step, const std::string& message) {
  RunEvent event;
  event.kind = RunEvent::Kind::kNote;
  event.step = step;
  event.message = message;
  environment.events.Emit(event);
}

}  // namespace

KernelRule RuleFor(const std::string& policy) {
  KernelRule rule;
  rule.error.bitwise = policy == "bitwise";
  return rule;
}

Result<StepResult> SearchKernels(Environment& environment, Run& run) {
  RecordingJudge judge(*environment.judge, environment.store, run.gpu_id, run.versions,
                       environment.cancelled);
  SearchTools tools{environment.compiler, judge, run.device, run.triton_version};
  StepProgress progress(environment.events, environment.clock, "search",
                        static_cast<int64_t>(run.order.size()));
  double end = environment.clock.Seconds() + run.options.budget_s;
  double best = 0;
  int candidates = 0, winners = 0;
  for (size_t i = 0; i < run.order.size(); ++i) {
    KOPT_CHECK_OK(environment.CheckCancelled());
    const ExtractedKernel& kernel = *run.extraction.Find(run.order[i]);
    std::string inputs = SearchInputs(run, kernel.subject);
    judge.SetKernel(kernel.work.key);
    progress.Say(kernel.work.name);
    auto known = KOPT_TRY(Recall(environment, run, kernel.subject, inputs));
    SearchOutcome outcome;
    if (known) {
      outcome = std::move(*known);
    } else {
      Observer observer(CandidateRecorder(environment.store, run, kernel.subject, "screen"), judge,
                        progress, kernel.work.name);
      double deadline = DeadlineFor(run, i, environment.clock.Seconds(), end);
      SearchOptions options = run.search;
      options.rule = RuleFor(run.options.policy);
      options.stop = [&] {
        return !observer.status || !judge.kept() ||
               (environment.cancelled && environment.cancelled()) ||
               environment.clock.Seconds() >= deadline;
      };
      outcome = SearchKernel(kernel.subject, tools, options, &observer);
      KOPT_CHECK_OK(judge.kept());
      KOPT_CHECK_OK(observer.status);
      KOPT_CHECK_OK(environment.CheckCancelled());  // a stopped search says nothing
      // A search that ran out of time goes on when the run is resumed.
      if (!outcome.stopped_early) {
        KOPT_CHECK_OK(Remember(environment, kernel.subject, outcome, inputs));
      }
    }
    DecisionRecord decision;
    decision.kernel = kernel.work.key;
    decision.kind = outcome.winner ? "frozen" : "kept";
    decision.message = outcome.message;
    decision.detail = DumpJson({{"reason", outcome.reason}, {"candidates", outcome.candidates}});
    KOPT_CHECK_OK(environment.store.RecordDecision(std::move(decision)));
    candidates += outcome.candidates;
    if (outcome.winner) {
      ++winners;
      best = std::max(best, outcome.winner->baseline_us / outcome.winner->time_us);
    }
    progress.Advance(kernel.work.name + ": " + Describe(outcome), best);
    Note(environment, "search", kernel.work.name + ": " + outcome.message);
    run.results[kernel.work.key].outcome = std::move(outcome);
  }
  return StepResult{fmt::format("{} candidates for {} kernel{}, {} of them with a faster one",
                                candidates, run.order.size(), run.order.size() == 1 ? "" : "s",
                                winners)};
}

Result<StepResult> CertifyWinners(Environment& environment, Run& run) {
  environment.model->Prepare();  // the next step's
  RecordingJudge judge(*environment.judge, environment.store, run.gpu_id, run.versions,
                       environment.cancelled);
  SearchTools tools{environment.compiler, judge, run.device, run.triton_version};
  int64_t total = std::ranges::count_if(
      run.results, [](const auto& item) { return item.second.outcome.winner.has_value(); });
  StepProgress progress(environment.events, environment.clock, "certify", total);
  int certified = 0;
  for (const std::string& key : run.order) {
    KernelResult& result = run.results[key];
    if (!result.outcome.winner) continue;
    KOPT_CHECK_OK(environment.CheckCancelled());
    const ExtractedKernel& kernel = *run.extraction.Find(key);
    progress.Say(kernel.work.name);
    judge.SetKernel(key);
    VerdictKey verdict_key =
        KernelVerdictKey(run, result.outcome.winner->replacement, Gate::kKernel, "certify",
                         HashSites(kernel.subject.sites));
    if (auto known = KOPT_TRY(environment.store.FindVerdict(verdict_key))) {
      Verdict verdict = FromRecord(*known);
      std::string label = !verdict.accepted ? "" : IsBitwise(verdict) ? "bitwise" : "within rule";
      result.certificate = {std::move(verdict), std::move(label)};
    } else {
      result.certificate =
          CertifyWinner(kernel.subject, *result.outcome.winner, tools, RuleFor(run.options.policy));
      KOPT_CHECK_OK(judge.kept());
      KOPT_CHECK_OK(environment.CheckCancelled());  // a stopped certification says nothing
      verdict_key.gate = static_cast<int>(result.certificate.verdict.gate);
      KOPT_CHECK_OK(
          environment.store.RecordVerdict(ToRecord(result.certificate.verdict, verdict_key, key)));
    }
    bool accepted = result.certificate.verdict.accepted;
    certified += accepted;
    progress.Advance(kernel.work.name + ": " +
                     (accepted ? result.certificate.label : result.certificate.verdict.reason));
    if (!accepted) {
      Note(environment, "certify",
           kernel.work.name + " is kept: " + result.certificate.verdict.message);
    }
  }
  return StepResult{fmt::format("{} of {} proven on all data", certified, total)};
}

}  // namespace kernelopt
