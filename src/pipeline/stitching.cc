#include "pipeline/stitching.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "gates/model_gate.h"
#include "gates/performance_gate.h"
#include "pipeline/doctor.h"
#include "pipeline/records.h"

namespace kernelopt {
namespace {

const std::vector<int> kModelSeeds = {0, 42, 123};
const std::string kGate4 = "gate4", kConfirm = "confirm";  // purposes of measurements

VariantSpec SpecOf(const Variant& variant) {
  return {.mode = variant.mode, .train = variant.train, .input_set = variant.input_set};
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<ModelTiming> TimingFromJson(const Json& json) {
  constexpr std::string_view kWhat = "a recorded timing";
  ModelTiming timing;
  const Json* pairs = KOPT_TRY(GetArray(json, "pairs", kWhat));
  for (const Json& pair : *pairs) {
    auto& blocks = timing.pairs.emplace_back();
    for (const Json& block : pair) {
      if (!block.is_array() || block.size() != 4) {
        return Fail(ErrorKind::kUsage, "bad_field", "a block doesn't have four times", "store.db");
      }
      auto& times = blocks.emplace_back();
      for (size_t i = 0; i < 4; ++i) times[i] = block[i].is_number() ? block[i].get<double>() : 0;
    }
  }
  timing.first_call_compiled_s = KOPT_TRY(GetDouble(json, "first_call_compiled_s", kWhat));
  timing.first_call_stitched_s = KOPT_TRY(GetDouble(json, "first_call_stitched_s", kWhat));
  timing.peak_bytes_compiled = KOPT_TRY(GetInt(json, "peak_bytes_compiled", kWhat));
  timing.peak_bytes_stitched = KOPT_TRY(GetInt(json, "peak_bytes_stitched", kWhat));
  timing.interleaved = KOPT_TRY(GetBool(json, "interleaved", kWhat));
  return timing;
}

Json TimingToJson(const ModelTiming& timing) {
  return {{"pairs", timing.pairs},
          {"first_call_compiled_s", timing.first_call_compiled_s},
          {"first_call_stitched_s", timing.first_call_stitched_s},
          {"peak_bytes_compiled", timing.peak_bytes_compiled},
          {"peak_bytes_stitched", timing.peak_bytes_stitched},
          {"interleaved", timing.interleaved}};
}

PerformanceRule RuleOf(const Run& run) {
  PerformanceRule rule;
  rule.min_gain = run.options.min_gain;
  rule.process_sigma = LogSigma(run.noise_us);
  rule.process_samples = static_cast<int>(run.noise_us.size());
  return rule;
}

/// Those of the kernels that occur in a variant: what the loader must swap.
std::vector<std::string> Expected(const Run& run, const Variant& variant,
                                  const std::vector<std::string>& keys) {
  std::vector<std::string> expected;
  for (const std::string& key : keys) {
    if (!run.extraction.ModuleKeys(variant, key).empty()) expected.push_back(key);
  }
  return expected;
}

/// Where the draft of a set in a variant is written down.
std::string SetFact(const std::string& set, const std::string& variant) {
  return "set/" + set + "/" + variant;
}

/// Gate 3 of one variant with a draft.
Result<Verdict> CheckModel(Environment& environment, const Run& run, const VariantSpec& variant,
                           const std::string& draft, const std::vector<std::string>& expected,
                           const ModelWorker::Progress& say) {
  auto check = environment.model->Check({run.options.model, run.options.entry}, variant, draft,
                                        kModelSeeds, say);
  if (!check && check.error().code == "out_of_memory") {
    return Reject(Gate::kModel, "not_verifiable_here", check.error().message);
  }
  if (!check) return std::unexpected(check.error());
  ModelRule rule;
  rule.expected_swaps = expected;
  rule.allow_weaker = run.options.allow_weaker;
  return JudgeModel(*check, rule);
}

/// One group of variants, with the gates over it.
class GroupProof {
 public:
  GroupProof(Environment& environment, Run& run, std::vector<size_t> variants,
             StepProgress& progress)
      : environment_(environment), run_(run), variants_(std::move(variants)), progress_(progress) {}

  Result<StitchOutcome> Prove() {
    std::vector<StitchPiece> pieces;
    for (const std::string& key : run_.order) {
      const KernelResult& result = run_.results.at(key);
      if (!result.certified() || !IsIn(key)) continue;
      pieces.push_back({key, result.outcome.winner->GainUs()});
    }
    StitchGates gates;
    gates.check = [this](const std::vector<std::string>& keys) { return Check(keys); };
    gates.time = [this](const std::vector<std::string>& keys) { return Time(keys); };
    double model_us = 0;
    for (size_t v : variants_) {
      model_us = std::max(model_us, run_.extraction.capture.variants[v].compiled_us);
    }
    return StitchAndProve(pieces, gates, LogSigma(run_.noise_us) * model_us);
  }

  /// The numbers that are published, which gate 4 has not seen. False: what it saw
  /// did not come again.
  Result<bool> Confirm(const std::vector<std::string>& keys) {
    std::string draft = KOPT_TRY(Draft(keys));
    for (size_t v : variants_) {
      const Variant& variant = run_.extraction.capture.variants[v];
      ModelTiming timing = KOPT_TRY(Measure(keys, variant, draft, kConfirm));
      PerformanceEffect effect = KOPT_TRY(ComputeEffect(timing, RuleOf(run_)));
      std::vector<double> compiled, ours;
      for (const auto& pair : timing.pairs) {
        for (const auto& block : pair) {
          compiled.insert(compiled.end(), {block[0], block[3]});
          ours.insert(ours.end(), {block[1], block[2]});
        }
      }
      run_.variants[v].confirmed = effect;
      run_.variants[v].compiled_us = Median(compiled);
      run_.variants[v].ours_us = Median(ours);
      if (effect.lower <= 1) return false;
    }
    return true;
  }

 private:
  bool IsIn(const std::string& key) const {
    return std::ranges::any_of(variants_, [&](size_t v) {
      return !run_.extraction.ModuleKeys(run_.extraction.capture.variants[v], key).empty();
    });
  }

  Result<std::string> Draft(const std::vector<std::string>& keys) {
    Pack pack = KOPT_TRY(BuildPack(run_, environment_.version, keys, variants_));
    std::string folder = fmt::format("{}/{}.kopt", run_.paths.Drafts(),
                                     HashSet({NameSet(run_, keys), GroupName()}).substr(0, 16));
    KOPT_CHECK_OK(MakeFolder(run_.paths.Drafts()));
    KOPT_CHECK_OK(WritePack(pack, folder, PackMode::kReplace));
    Batch batch;  // for `replay`
    for (size_t v : variants_) {
      const Variant& variant = run_.extraction.capture.variants[v];
      batch.facts.emplace_back(
          SetFact(NameSet(run_, keys), variant.Name()),
          DumpJson({{"draft", folder}, {"expected", Expected(run_, variant, keys)}}));
    }
    KOPT_CHECK_OK(environment_.store.Record(std::move(batch)));
    return folder;
  }

  std::string GroupName() const {
    std::string name;
    for (size_t v : variants_) name += run_.extraction.capture.variants[v].Name() + " ";
    return name;
  }

  ModelWorker::Progress Say(const std::string& what) {
    return [this, what](const std::string& step) { progress_.Say(what + ": " + step); };
  }

  Result<Verdict> Check(const std::vector<std::string>& keys) {
    Verdict last = Accept(Gate::kModel, "no variant");
    std::string set = NameSet(run_, keys), draft;
    for (size_t v : variants_) {
      KOPT_CHECK_OK(environment_.CheckCancelled());
      const Variant& variant = run_.extraction.capture.variants[v];
      VerdictKey key = SetVerdictKey(run_, set, Gate::kModel, variant.Name());
      if (auto known = KOPT_TRY(environment_.store.FindVerdict(key))) {
        last = FromRecord(*known);
      } else {
        if (draft.empty()) draft = KOPT_TRY(Draft(keys));
        std::string what = fmt::format("{}: correctness of {}", variant.Name(), Count(keys));
        progress_.Say(what);
        last = KOPT_TRY(CheckModel(environment_, run_, SpecOf(variant), draft,
                                   Expected(run_, variant, keys), Say(what)));
        KOPT_CHECK_OK(environment_.store.RecordVerdict(ToRecord(last, key, "")));
      }
      if (!last.accepted) return last;
    }
    return last;
  }

  MeasurementKey TimingKey(const std::vector<std::string>& keys, const Variant& variant,
                           const std::string& purpose) const {
    return {.subject = NameSet(run_, keys),
            .site = "",
            .gpu = run_.gpu_id,
            .versions = run_.versions,
            .variant = variant.Name(),
            .state = "model",
            .purpose = purpose,
            .data_version = kDataVersion};
  }

  /// Samples from the store, or from the model worker. What gate 4 decides on and
  /// what confirms it are measured by one call, whose processes start together;
  /// the gate never sees the second.
  Result<ModelTiming> Measure(const std::vector<std::string>& keys, const Variant& variant,
                              const std::string& draft, const std::string& purpose) {
    if (auto known =
            KOPT_TRY(environment_.store.FindMeasurement(TimingKey(keys, variant, purpose)))) {
      return TimingFromJson(KOPT_TRY(ParseJson(known->detail, "a recorded timing")));
    }
    KOPT_CHECK_OK(environment_.CheckCancelled());
    std::string what = fmt::format("{}: timing {}", variant.Name(), Count(keys));
    progress_.Say(what);
    const std::vector<std::string> purposes = {kGate4, kConfirm};
    std::vector<ModelTiming> timings = KOPT_TRY(environment_.model->Time(
        {run_.options.model, run_.options.entry}, SpecOf(variant), draft,
        static_cast<int>(purposes.size()), kTimingPairs, kTimingBlocks, Say(what)));
    ModelTiming wanted;
    Batch batch;  // one call, one transaction: a part of it would be measured again
    for (size_t i = 0; i < purposes.size(); ++i) {
      const ModelTiming& timing = timings[i];
      if (purposes[i] == purpose) wanted = timing;
      MeasurementRecord record;
      record.key = TimingKey(keys, variant, purposes[i]);
      record.batch = "A1 B1 B2 A2";
      for (const auto& pair : timing.pairs) {
        for (const auto& block : pair) {
          record.samples.insert(record.samples.end(), block.begin(), block.end());
        }
      }
      record.gpu_uuid = run_.device.uuid;
      record.detail = DumpJson(TimingToJson(timing));
      batch.measurements.push_back(std::move(record));
    }
    KOPT_CHECK_OK(environment_.store.Record(std::move(batch)));
    return wanted;
  }

  Result<Verdict> Time(const std::vector<std::string>& keys) {
    Verdict last = Accept(Gate::kPerformance, "no variant");
    std::string set = NameSet(run_, keys), draft;
    for (size_t v : variants_) {
      const Variant& variant = run_.extraction.capture.variants[v];
      VerdictKey key = SetVerdictKey(run_, set, Gate::kPerformance, variant.Name());
      key.policy += fmt::format(" min_gain={}", run_.options.min_gain);
      if (auto known = KOPT_TRY(environment_.store.FindVerdict(key))) {
        last = FromRecord(*known);
      } else {
        if (run_.noise_us.empty()) {
          run_.noise_us = KOPT_TRY(MeasureNoise(environment_, run_.device, Say("timing")));
        }
        if (draft.empty()) draft = KOPT_TRY(Draft(keys));
        ModelTiming timing = KOPT_TRY(Measure(keys, variant, draft, kGate4));
        last = JudgePerformance(timing, RuleOf(run_));
        KOPT_CHECK_OK(environment_.store.RecordVerdict(ToRecord(last, key, "")));
      }
      if (!last.accepted) return last;
    }
    return last;
  }

  static std::string Count(const std::vector<std::string>& keys) {
    return fmt::format("{} kernel{}", keys.size(), keys.size() == 1 ? "" : "s");
  }

  Environment& environment_;
  Run& run_;
  std::vector<size_t> variants_;
  StepProgress& progress_;
};

}  // namespace

std::vector<std::vector<size_t>> GroupVariants(const Extraction& extraction) {
  const std::vector<Variant>& variants = extraction.capture.variants;
  std::vector<size_t> group(variants.size());
  std::iota(group.begin(), group.end(), 0);
  std::map<std::string, size_t> first;  // module key -> the first variant that has it
  for (size_t v = 0; v < variants.size(); ++v) {
    for (const Graph& graph : variants[v].graphs) {
      auto module = extraction.modules.find(graph.module);
      if (module == extraction.modules.end()) continue;
      auto [where, is_new] = first.emplace(module->second.key, v);
      if (is_new || group[where->second] == group[v]) continue;
      size_t from = group[v], to = group[where->second];
      for (size_t& g : group) {
        if (g == from) g = to;
      }
    }
  }
  std::map<size_t, std::vector<size_t>> members;
  for (size_t v = 0; v < variants.size(); ++v) members[group[v]].push_back(v);
  std::vector<std::vector<size_t>> groups;
  for (auto& [id, list] : members) groups.push_back(std::move(list));
  return groups;
}

std::string NameSet(const Run& run, const std::vector<std::string>& keys) {
  std::vector<std::string> ids;
  for (const std::string& key : keys) {
    ids.push_back(run.results.at(key).outcome.winner->replacement.Id());
  }
  return HashSet(std::move(ids));
}

Result<Pack> BuildPack(const Run& run, const std::string& version,
                       const std::vector<std::string>& keys, const std::vector<size_t>& variants) {
  const Capture& capture = run.extraction.capture;
  Pack pack;
  pack.kernelopt_version = version;
  pack.policy = run.options.policy;
  pack.torch = capture.torch;
  pack.triton = capture.triton;
  pack.python = capture.python;
  pack.gpu = {run.device.name, run.device.compute_capability, run.device.sm_count, run.device.mig};
  pack.model_file = std::filesystem::path(capture.model_file).filename().string();
  pack.model_sha256 = capture.model_sha256;
  for (size_t v : variants) {
    const Variant& variant = capture.variants[v];
    PackVariant section;
    section.name = variant.Name();
    section.mode = variant.mode;
    section.train = variant.train;
    section.input_set = variant.input_set;
    for (const Graph& graph : variant.graphs) {
      const std::string& key = run.extraction.modules.at(graph.module).key;
      if (std::ranges::find(section.modules, key) == section.modules.end()) {
        section.modules.push_back(key);
      }
    }
    pack.variants.push_back(std::move(section));
  }
  for (const std::string& key : keys) {
    const KernelResult& result = run.results.at(key);
    const Winner& winner = *result.outcome.winner;
    PackKernel kernel;
    kernel.replacement = winner.replacement;
    kernel.name = run.extraction.Find(key)->work.name;
    for (size_t v : variants) {
      for (std::string& module : run.extraction.ModuleKeys(capture.variants[v], key)) {
        if (std::ranges::find(kernel.modules, module) == kernel.modules.end()) {
          kernel.modules.push_back(std::move(module));
        }
      }
    }
    if (kernel.modules.empty()) continue;  // it occurs in other variants only
    kernel.cubin = KOPT_TRY(ReadFile(winner.compiled.cubin_path));
    kernel.record = winner.compiled.record;
    kernel.binary_hash = winner.compiled.binary_hash;
    kernel.label = result.certificate.label;
    kernel.compiler_us = winner.baseline_us;
    kernel.ours_us = winner.time_us;
    pack.kernels.push_back(std::move(kernel));
  }
  return pack;
}

Result<Verdict> ReplaySet(Environment& environment, Run& run, const VerdictKey& key) {
  auto fact = KOPT_TRY(environment.store.Fact(SetFact(key.subject, key.variant)));
  if (!fact) {
    return Fail(ErrorKind::kUsage, "no_such_verdict", "the draft that it is about is gone",
                run.paths.folder);
  }
  Json json = KOPT_TRY(ParseJson(*fact, "a recorded set"));
  std::string draft = KOPT_TRY(GetString(json, "draft", "a recorded set"));
  std::vector<std::string> expected;
  for (const Json& kernel : *KOPT_TRY(GetArray(json, "expected", "a recorded set"))) {
    if (kernel.is_string()) expected.push_back(kernel.get<std::string>());
  }
  VariantSpec spec;
  bool known = false;
  for (const VariantSpec& variant : run.options.Variants()) {
    if (variant.Name() == key.variant) {
      spec = variant;
      known = true;
    }
  }
  if (!known) {
    return Fail(ErrorKind::kUsage, "no_such_verdict", "its variant is not one of the run's",
                run.paths.folder);
  }
  KOPT_CHECK_OK(environment.judge->Release());
  StepProgress progress(environment.events, environment.clock, "replay", 0);
  auto say = [&](const std::string& step) { progress.Say(step); };
  if (key.gate == static_cast<int>(Gate::kModel)) {
    return CheckModel(environment, run, spec, draft, expected, say);
  }
  std::vector<ModelTiming> timings = KOPT_TRY(environment.model->Time(
      {run.options.model, run.options.entry}, spec, draft, 1, kTimingPairs, kTimingBlocks, say));
  return JudgePerformance(timings[0], RuleOf(run));
}

Result<StepResult> StitchVariants(Environment& environment, Run& run) {
  run.variants.assign(run.extraction.capture.variants.size(), {});
  StepProgress progress(environment.events, environment.clock, "stitch", 0);
  // The model worker needs the memory that the judge holds.
  KOPT_CHECK_OK(environment.judge->Release());
  size_t improved = 0;
  for (const std::vector<size_t>& group : GroupVariants(run.extraction)) {
    GroupProof proof(environment, run, group, progress);
    StitchOutcome outcome = KOPT_TRY(proof.Prove());
    for (const DroppedPiece& dropped : outcome.dropped) {
      DecisionRecord decision;
      decision.kernel = dropped.key;
      decision.kind = "dropped";
      decision.message = dropped.verdict.message;
      KOPT_CHECK_OK(environment.store.RecordDecision(std::move(decision)));
    }
    if (!outcome.accepted.empty() && !KOPT_TRY(proof.Confirm(outcome.accepted))) {
      outcome.accepted.clear();
      outcome.reason = "not_confirmed";
    }
    if (!outcome.accepted.empty()) improved += group.size();
    for (size_t v : group) run.variants[v].stitch = outcome;
  }
  if (run.variants.size() == 1) {
    const VariantResult& only = run.variants[0];
    return StepResult{
        only.improved()
            ? fmt::format("{} kernel{} proven in the model: {:.3f}x", only.stitch.accepted.size(),
                          only.stitch.accepted.size() == 1 ? "" : "s", only.confirmed->median)
            : "the compiler's model is kept: " + only.stitch.reason};
  }
  return StepResult{fmt::format("{} of {} variants improved", improved, run.variants.size())};
}

}  // namespace kernelopt
