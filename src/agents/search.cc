#include "agents/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "agents/timing.h"
#include "gates/static_gate.h"
#include "inductor/module.h"
#include "inductor/splice.h"
#include "triton/hints.h"
#include "triton/rules/rule.h"

namespace kernelopt {
namespace {

/// A step of the descent must gain this much, else noise would lead it.
constexpr double kStepGain = 0.003;
/// A candidate may take so many times as long to compile as the compiler's kernel, for a
/// machine that is slow or busy.
constexpr int64_t kCompileFactor = 10;

/// A candidate with all that is known of it. Kept in a deque: records are
/// pointed at.
struct Candidate {
  CandidateRecord record;
  Binary binary;
  bool timed = false;  ///< with the rounds of the middle or the final stage
  double ratio = 0;    ///< time over the compiler's; 0 = unknown or failed

  const LaunchConfig& config() const { return record.replacement.steps.front().config; }
  const std::string& text() const { return record.replacement.steps.front().kernel_text; }
};

class Search {
 public:
  Search(const SearchSubject& subject, SearchTools tools, const SearchOptions& options,
         SearchObserver* observer)
      : subject_(subject),
        tools_(std::move(tools)),
        options_(options),
        observer_(observer),
        timer_(subject, tools_.judge, baselines_) {}

  SearchOutcome Run() {
    if (!CompileBaselines() || !CheckBaseline()) return Finish();
    double floor = timer_.FloorUs();
    if (floor > 0 && timer_.BaselineUs() <= options_.near_floor * floor) {
      return Keep("at_the_floor",
                  fmt::format("the compiler's kernel takes {:.2f} us, the floor is {:.2f} us",
                              timer_.BaselineUs(), floor));
    }
    ConfigSpace space = MakeSpace();
    FirstRound(space);
    Descend(space);
    if (Rules()) Descend(space);
    Refine(space);
    Hints();
    return Choose();
  }

 private:
  // The compiler's kernel.

  bool CompileBaselines() {
    std::vector<CompileRequest> requests;
    std::vector<const BuiltSite*> of;
    for (const BuiltSite& site : subject_.sites) {
      std::string name = site.compiler_config.ToString();
      if (baselines_.contains(name)) continue;
      requests.push_back(BaselineRequest(*subject_.kernel, site.compiler_config, site.binary_hash,
                                         tools_.device.compute_capability));
      of.push_back(&site);
      baselines_[name].config = site.compiler_config;
    }
    auto outputs = tools_.compiler.CompileAll(requests, nullptr);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]) {
        Keep("not_compilable", "the compiler's own kernel: " + outputs[i].error().ToString());
        return false;
      }
      baselines_[of[i]->compiler_config.ToString()].compiled = *outputs[i];
    }
    for (const BuiltSite& site : subject_.sites) {
      const CompileOutput& compiled = baselines_.at(site.compiler_config.ToString()).compiled;
      if (!site.binary_hash.empty() && site.binary_hash != compiled.binary_hash) {
        Keep("baseline_differs",
             fmt::format("the kernel compiled from the module's text is not the one that ran at "
                         "{}: binary {:.12} instead of {:.12}",
                         site.site.name, compiled.binary_hash, site.binary_hash));
        return false;
      }
    }
    own_ = &baselines_.at(subject_.sites.front().compiler_config.ToString());
    twins_.emplace(*subject_.kernel, own_->config, own_->compiled, tools_.device.compute_capability,
                   tools_.compiler);
    return true;
  }

  /// Times the compiler's kernel and holds the gate against it: what does not
  /// even accept the compiler's own kernel can't judge another.
  bool CheckBaseline() {
    Candidate& baseline = Add(BaselineReplacement(subject_), "baseline");
    baseline.binary = *own_;
    SetCompiled(&baseline, own_->compiled);
    hashes_.insert(own_->compiled.binary_hash);
    Verdict verdict =
        ScreenKernel(tools_.judge, PairWith(*own_), *twins_, subject_.sites, options_.rule);
    baseline.record.verdicts.push_back(verdict);
    if (!verdict.accepted) {
      Tell(baseline);
      bool here = verdict.reason == "not_verifiable_here";
      Keep(here ? "not_verifiable_here" : "not_certifiable",
           "the compiler's kernel against itself: " + verdict.message);
      return false;
    }
    if (auto status = timer_.MeasureBaseline(options_.middle_rounds); !status) {
      Tell(baseline);
      Keep(status.error().code == "out_of_memory" ? "not_verifiable_here" : "baseline_fails",
           status.error().ToString());
      return false;
    }
    baseline.record.time_us = baseline.record.baseline_us = timer_.BaselineUs();
    baseline.ratio = 1;
    baseline.timed = true;
    best_ = &baseline;
    Tell(baseline);
    return true;
  }

  // Steps.

  void FirstRound(const ConfigSpace& space) {
    std::vector<Replacement> batch;
    // What the compiler chose elsewhere for this kernel comes first.
    for (const auto& [name, baseline] : baselines_)
      if (&baseline != own_) batch.push_back(WithConfig(baseline.config));
    for (const LaunchConfig& config : space.Ordered()) {
      if (batch.size() >= options_.first_batch) break;
      if (!(config == own_->config)) batch.push_back(WithConfig(config));
    }
    std::vector<Candidate*> timed =
        Evaluate(std::move(batch), "first", options_.screen_rounds, false);
    TimeMore(BestOf(std::move(timed)), options_.middle_rounds);
    Progress("first round");
  }

  /// Moves to the best neighbour as long as one is faster.
  void Descend(const ConfigSpace& space) {
    while (!Done()) {
      std::vector<Replacement> batch;
      for (const LaunchConfig& config : space.Neighbours(best_->config()))
        batch.push_back(WithConfig(config));
      const Candidate* before = best_;
      double ratio = best_->ratio;
      if (Evaluate(std::move(batch), "descent", options_.middle_rounds, true).empty()) break;
      Progress("descent");
      if (best_ == before || best_->ratio > ratio * (1 - kStepGain)) break;
    }
  }

  /// True when a rule's text is the best.
  bool Rules() {
    if (Done() || !options_.rules) return false;
    std::vector<Replacement> batch = RuleReplacements(subject_);
    if (batch.empty()) return false;
    for (const Replacement& made : batch)
      origins_[made.steps.front().kernel_text] = {made.origin, made.change};
    TimeMore(BestOf(Evaluate(std::move(batch), "rules", options_.screen_rounds, false)),
             options_.middle_rounds);
    Progress("rules");
    return origins_.contains(best_->text());
  }

  void Refine(const ConfigSpace& space) {
    if (Done()) return;
    std::vector<Replacement> batch;
    for (const LaunchConfig& config : space.Refinements(best_->config()))
      batch.push_back(WithConfig(config));
    Evaluate(std::move(batch), "refine", options_.middle_rounds, true);
    Progress("warps, stages and registers");
  }

  void Hints() {
    if (Done() || !options_.hints) return;
    Replacement base = best_->record.replacement;
    auto variants = HintVariants(base.steps.front().kernel_text);
    if (!variants) return;
    std::vector<Replacement> batch;
    for (const TextVariant& variant : *variants) {
      Replacement replacement = base;
      replacement.steps.front().kernel_text = variant.text;
      replacement.origin = "hints:" + variant.name;
      replacement.change =
          best_->record.step == "baseline" ? variant.change : base.change + "; " + variant.change;
      batch.push_back(std::move(replacement));
    }
    Evaluate(std::move(batch), "hints", options_.middle_rounds, true);
    Progress("cache hints");
  }

  /// The fastest that holds under many rounds and passes the screening.
  SearchOutcome Choose() {
    std::vector<Candidate*> ranked;
    for (Candidate& candidate : candidates_) {
      if (candidate.timed && candidate.record.step != "baseline" && candidate.ratio > 0 &&
          candidate.ratio < 1)
        ranked.push_back(&candidate);
    }
    SortByRatio(&ranked);
    if (ranked.empty()) {
      return stopped_ ? Keep("out_of_time", "the time was up before a faster candidate was found")
                      : Keep("no_faster_candidate",
                             fmt::format("none of {} candidates is faster than the compiler's "
                                         "kernel",
                                         candidates_.size() - 1));
    }
    // The first of a ranking over noise looks better than it is: those at the
    // front are measured again, and go by the new times alone.
    size_t finalists = std::min(ranked.size(), options_.final_count);
    std::string rejections;
    for (size_t begin = 0; begin < ranked.size();
         begin = finalists, finalists = std::min(ranked.size(), finalists + options_.final_count)) {
      std::vector<Candidate*> group(ranked.begin() + static_cast<long>(begin),
                                    ranked.begin() + static_cast<long>(finalists));
      TimeMore(group, options_.final_rounds);
      SortByRatio(&group);
      bool any = false;
      for (Candidate* candidate : group) {
        if (candidate->ratio <= 0 || candidate->ratio > 1 - options_.min_gain) continue;
        any = true;
        Verdict verdict = ScreenKernel(tools_.judge, PairWith(candidate->binary), *twins_,
                                       subject_.sites, options_.rule);
        candidate->record.verdicts.push_back(verdict);
        if (verdict.accepted) return Win(candidate, verdict);
        Tell(*candidate);
        rejections = verdict.reason + ": " + verdict.message;
      }
      if (!any) break;  // the next group is slower still
      if (options_.stop()) {
        stopped_ = true;
        break;
      }
    }
    if (!rejections.empty())
      return Keep("none_passed",
                  "no faster candidate passed the screening; the last: " + rejections);
    return Keep("no_faster_candidate",
                fmt::format("the best of {} candidates gains less than {:.1f} % when measured "
                            "again",
                            candidates_.size() - 1, 100 * options_.min_gain));
  }

  SearchOutcome Win(Candidate* candidate, const Verdict& screening) {
    auto cold = timer_.Time({&candidate->binary}, options_.middle_rounds, false, CacheState::kCold);
    candidate->record.cold_us = cold[0].time_us;
    candidate->record.baseline_cold_us = cold[0].baseline_us;
    Tell(*candidate);
    Winner winner;
    winner.replacement = candidate->record.replacement;
    winner.compiled = candidate->binary.compiled;
    winner.baseline_config = own_->config;
    winner.baseline = own_->compiled;
    winner.time_us = candidate->record.time_us;
    winner.baseline_us = candidate->record.baseline_us;
    winner.cold_us = candidate->record.cold_us;
    winner.baseline_cold_us = candidate->record.baseline_cold_us;
    winner.screening = screening;
    outcome_.reason = "improved";
    outcome_.message = fmt::format("{:.2f} us instead of {:.2f} us ({:.2f}x): {}", winner.time_us,
                                   winner.baseline_us, winner.baseline_us / winner.time_us,
                                   winner.replacement.change);
    outcome_.winner = std::move(winner);
    return Finish();
  }

  // Candidates.

  Replacement WithConfig(const LaunchConfig& config) const {
    Replacement replacement = best_->record.replacement;
    replacement.steps.front().config = config;
    replacement.origin = "configuration";
    replacement.change =
        fmt::format("launched with {} instead of {}", config.ToString(), own_->config.ToString());
    if (auto it = origins_.find(best_->text()); it != origins_.end()) {
      replacement.origin = it->second.first;
      replacement.change = it->second.second + "; " + replacement.change;
    }
    return replacement;
  }

  Candidate& Add(Replacement replacement, std::string step) {
    known_.insert(replacement.Id());
    Candidate& candidate = candidates_.emplace_back();
    candidate.record.replacement = std::move(replacement);
    candidate.record.step = std::move(step);
    return candidate;
  }

  static void SetCompiled(Candidate* candidate, const CompileOutput& output) {
    candidate->record.compiled = true;
    candidate->record.binary_hash = output.binary_hash;
    candidate->record.registers = output.registers;
    candidate->record.spill_bytes = output.spill_bytes;
  }

  /// Gate 1, compile, gate 1 again, time. Returns the candidates that were
  /// timed; updates best_ when `settled` (enough rounds at all sites).
  std::vector<Candidate*> Evaluate(std::vector<Replacement> batch, const std::string& step,
                                   int rounds, bool settled) {
    std::vector<Candidate*> timed;
    for (size_t begin = 0; begin < batch.size() && !Done();) {
      std::vector<Candidate*> compile;
      std::vector<CompileRequest> requests;
      for (; begin < batch.size() && compile.size() < options_.batch; ++begin) {
        if (known_.contains(batch[begin].Id())) continue;
        if (candidates_.size() > options_.max_candidates) break;
        Candidate& candidate = Add(std::move(batch[begin]), step);
        if (Admit(&candidate, &requests)) {
          compile.push_back(&candidate);
        } else {
          Tell(candidate);
        }
      }
      std::vector<Candidate*> ready = Compile(compile, requests);
      Time(ready, rounds, settled);
      timed.insert(timed.end(), ready.begin(), ready.end());
      if (candidates_.size() > options_.max_candidates) break;
    }
    std::erase_if(timed, [](const Candidate* candidate) { return candidate->ratio <= 0; });
    return timed;
  }

  /// Gate 1 on the text, and whether it can be launched at every site.
  bool Admit(Candidate* candidate, std::vector<CompileRequest>* requests) {
    Verdict text =
        JudgeText(candidate->record.replacement, *subject_.kernel, tools_.triton_version);
    if (!text.accepted) {
      candidate->record.verdicts.push_back(text);
      return false;
    }
    auto request = RequestFor(*subject_.kernel, candidate->record.replacement.steps.front(),
                              tools_.device.compute_capability);
    Status grids;
    for (const BuiltSite& site : subject_.sites) {
      if (auto grid = ComputeGrid(*subject_.kernel, candidate->config(), site.numels); !grid)
        grids = std::unexpected(grid.error());
    }
    const Error* error = !request ? &request.error() : !grids ? &grids.error() : nullptr;
    if (error != nullptr) {
      candidate->record.verdicts.push_back(Reject(Gate::kStatic, error->code, error->ToString()));
      return false;
    }
    request->time_limit_ms = static_cast<int>(
        std::max<int64_t>(options_.compile_limit_ms, kCompileFactor * own_->compiled.compile_ms));
    requests->push_back(std::move(*request));
    return true;
  }

  /// Those that compiled, passed gate 1 and are no binary that is known already.
  std::vector<Candidate*> Compile(const std::vector<Candidate*>& candidates,
                                  const std::vector<CompileRequest>& requests) {
    std::vector<Candidate*> ready;
    if (candidates.empty()) return ready;
    auto outputs = tools_.compiler.CompileAll(requests, nullptr);
    for (size_t i = 0; i < candidates.size(); ++i) {
      Candidate* candidate = candidates[i];
      if (!outputs[i]) {
        candidate->record.compile_reason = outputs[i].error().code;
        candidate->record.verdicts.push_back(CompileFailure(outputs[i].error()));
        Tell(*candidate);
        continue;
      }
      SetCompiled(candidate, *outputs[i]);
      candidate->binary = {candidate->config(), *outputs[i]};
      if (!hashes_.insert(outputs[i]->binary_hash + GridText(candidate->config())).second) {
        candidate->record.compile_reason = "same_binary";
        Tell(*candidate);
        continue;
      }
      Verdict verdict = JudgeBinary(PairWith(candidate->binary), subject_.sites, tools_.device);
      candidate->record.verdicts.push_back(verdict);
      if (verdict.accepted) {
        ready.push_back(candidate);
      } else {
        Tell(*candidate);
      }
    }
    return ready;
  }

  /// A binary is only the same candidate when its grid is, too.
  std::string GridText(const LaunchConfig& config) const {
    auto grid = ComputeGrid(*subject_.kernel, config, subject_.sites.front().numels);
    return grid ? fmt::format(" {}x{}x{}", (*grid)[0], (*grid)[1], (*grid)[2]) : "";
  }

  void Time(const std::vector<Candidate*>& candidates, int rounds, bool settled) {
    if (candidates.empty()) return;
    std::vector<const Binary*> binaries;
    for (const Candidate* candidate : candidates) binaries.push_back(&candidate->binary);
    auto timings = timer_.Time(binaries, rounds, settled, CacheState::kAsInModel);
    for (size_t i = 0; i < candidates.size(); ++i) {
      Candidate* candidate = candidates[i];
      const SiteTimer::Timing& timing = timings[i];
      if (timing.time_us <= 0 || timing.baseline_us <= 0) {
        candidate->ratio = 0;
        candidate->timed = false;
        candidate->record.time_us = 0;
        candidate->record.verdicts.push_back(JudgeFailure(
            Gate::kKernel, {ErrorKind::kInternal, timing.failure, "it failed while it was timed",
                            subject_.sites[timer_.MainSite()].site.name}));
      } else {
        candidate->record.time_us = timing.time_us;
        candidate->record.baseline_us = timing.baseline_us;
        candidate->ratio = timing.time_us / timing.baseline_us;
        candidate->timed = settled;
        if (settled && candidate->ratio < best_->ratio) best_ = candidate;
      }
      Tell(*candidate);
    }
  }

  void TimeMore(const std::vector<Candidate*>& candidates, int rounds) {
    Time(candidates, rounds, true);
  }

  /// Halving: the best of few rounds are timed again with more, at every site.
  std::vector<Candidate*> BestOf(std::vector<Candidate*> timed) const {
    SortByRatio(&timed);
    if (timed.size() > options_.middle_count) timed.resize(options_.middle_count);
    return timed;
  }

  static void SortByRatio(std::vector<Candidate*>* candidates) {
    std::stable_sort(candidates->begin(), candidates->end(),
                     [](const Candidate* a, const Candidate* b) { return a->ratio < b->ratio; });
  }

  KernelPair PairWith(const Binary& candidate) const {
    KernelPair pair;
    pair.kernel = subject_.kernel;
    pair.baseline_config = own_->config;
    pair.baseline = &own_->compiled;
    pair.candidate_config = candidate.config;
    pair.candidate = &candidate.compiled;
    return pair;
  }

  ConfigSpace MakeSpace() const {
    std::map<std::string, int64_t> numels = subject_.sites.front().numels;
    for (const BuiltSite& site : subject_.sites)
      for (const auto& [name, value] : site.numels)
        if (numels.contains(name)) numels[name] = std::min(numels[name], value);
    ConfigLimits limits;
    limits.sm_count = tools_.device.sm_count;
    return ConfigSpace(*subject_.kernel, own_->config, numels, limits);
  }

  // Ends.

  /// Time is up, enough was tried, or the floor is near.
  bool Done() {
    if (stopped_ || options_.stop()) {
      stopped_ = true;
      return true;
    }
    double floor = timer_.FloorUs();
    bool near = floor > 0 && best_->ratio * timer_.BaselineUs() <= options_.near_floor * floor;
    return near || candidates_.size() > options_.max_candidates;
  }

  SearchOutcome Keep(std::string reason, std::string message) {
    outcome_.reason = std::move(reason);
    outcome_.message = std::move(message);
    return Finish();
  }

  SearchOutcome Finish() {
    outcome_.candidates = candidates_.empty() ? 0 : static_cast<int>(candidates_.size()) - 1;
    outcome_.stopped_early = stopped_;
    return outcome_;
  }

  void Tell(const Candidate& candidate) {
    if (observer_ != nullptr) observer_->OnCandidate(subject_.key, candidate.record);
  }

  void Progress(std::string_view step) {
    if (observer_ != nullptr)
      observer_->OnProgress(subject_.key, fmt::format("{}: {} candidates, best {:.2f}x", step,
                                                      candidates_.size() - 1, 1 / best_->ratio));
  }

  const SearchSubject& subject_;
  SearchTools tools_;
  const SearchOptions& options_;
  SearchObserver* observer_;
  std::map<std::string, Binary> baselines_;  ///< by configuration
  SiteTimer timer_;
  const Binary* own_ = nullptr;       ///< the first site's
  std::optional<TwinMaker> twins_;    ///< of `own_`
  std::deque<Candidate> candidates_;  ///< the first is the compiler's own
  Candidate* best_ = nullptr;
  std::set<std::string> known_, hashes_;
  std::map<std::string, std::pair<std::string, std::string>> origins_;  ///< text -> rule, change
  SearchOutcome outcome_;
  bool stopped_ = false;
};

}  // namespace

Replacement BaselineReplacement(const SearchSubject& subject) {
  Replacement replacement;
  replacement.kernel_key = subject.key;
  replacement.origin = "compiler";
  replacement.change = "the compiler's own kernel";
  ReplacementStep step;
  step.kernel_text = KernelText(*subject.kernel);
  step.config = subject.sites.front().compiler_config;
  replacement.steps.push_back(std::move(step));
  return replacement;
}

std::vector<Replacement> RuleReplacements(const SearchSubject& subject) {
  std::vector<Replacement> replacements;
  const Replacement baseline = BaselineReplacement(subject);
  for (RuleFinding& finding : ApplyRules({*subject.kernel, baseline.steps.front().config})) {
    for (RuleText& text : finding.texts) {
      for (LaunchConfig& config : text.configs) {
        Replacement replacement = baseline;
        replacement.steps.front().kernel_text = text.text;
        replacement.steps.front().config = std::move(config);
        replacement.origin = "rule:" + text.name;
        replacement.change = text.change;
        replacements.push_back(std::move(replacement));
      }
    }
  }
  return replacements;
}

SearchOutcome SearchKernel(const SearchSubject& subject, SearchTools tools,
                           const SearchOptions& options, SearchObserver* observer) {
  return Search(subject, std::move(tools), options, observer).Run();
}

}  // namespace kernelopt
