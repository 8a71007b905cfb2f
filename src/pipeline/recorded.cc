// A run on a recorded capture: all that can be done and shown without a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/plural.h"
#include "gates/static_gate.h"
#include "pipeline/optimize.h"
#include "pipeline/records.h"
#include "report/report.h"
#include "triton/config_space.h"

namespace kernelopt {
namespace {

/// Configurations a kernel that are compiled and checked; the search on a GPU
/// goes through hundreds, here they show that the way is open.
constexpr size_t kCandidates = 4;

/// Rewritten texts a kernel, for the same reason.
constexpr size_t kRewritten = 4;

/// Most shared memory that a block may ask for, by compute capability (CUDA C
/// programming guide, technical specifications).
int64_t SharedBytesPerBlock(int compute_capability) {
  switch (compute_capability) {
    case 75:
      return 64 * 1024;
    case 80:
    case 87:
      return 163 * 1024;
    case 90:
    case 100:
    case 103:
      return 227 * 1024;
    default:
      return 99 * 1024;
  }
}

/// The kernels that may be worked on, those with most time first.
std::vector<const ExtractedKernel*> InOrderOfTime(const Extraction& extraction) {
  std::vector<std::pair<double, const ExtractedKernel*>> timed;
  for (const ExtractedKernel& kernel : extraction.kernels) {
    if (!kernel.refused.empty()) continue;
    double us = 0;
    for (const BuiltSite& site : kernel.subject.sites) us += site.device_us;
    timed.emplace_back(us, &kernel);
  }
  std::ranges::stable_sort(timed, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<const ExtractedKernel*> kernels;
  for (const auto& item : timed) kernels.push_back(item.second);
  return kernels;
}

struct Counts {
  size_t candidates = 0, passed = 0;
  std::map<std::string, size_t> rejected;  ///< reason -> how many
};

/// Compiles candidates of one kernel and puts them through gate 1.
Status CheckCandidates(Environment& environment, Run& run, const ExtractedKernel& kernel,
                       Counts* counts) {
  const BuiltSite& site = kernel.subject.sites.front();
  Replacement baseline = BaselineReplacement(kernel.subject);
  ConfigLimits limits;
  limits.sm_count = run.device.sm_count;
  ConfigSpace space(*kernel.work.kernel, baseline.steps.at(0).config, site.numels, limits);
  std::vector<LaunchConfig> configs = space.Ordered();
  if (configs.size() > kCandidates + 1) configs.resize(kCandidates + 1);

  // The first is the compiler's own, the yardstick of gate 1.
  std::vector<Replacement> replacements;
  for (const LaunchConfig& config : configs) {
    Replacement candidate = baseline;
    candidate.steps[0].config = config;
    candidate.origin = "configuration";
    candidate.change = fmt::format("launched with {} instead of {}", config.ToString(),
                                   baseline.steps[0].config.ToString());
    replacements.push_back(std::move(candidate));
  }
  std::vector<Replacement> rewritten = RuleReplacements(kernel.subject);
  if (rewritten.size() > kRewritten) rewritten.resize(kRewritten);
  std::ranges::move(rewritten, std::back_inserter(replacements));
  std::vector<CompileRequest> requests;
  for (const Replacement& candidate : replacements) {
    requests.push_back(KOPT_TRY(
        RequestFor(*kernel.work.kernel, candidate.steps[0], run.device.compute_capability)));
  }
  auto outputs = environment.compiler.CompileAll(requests, [](size_t) {});
  if (!outputs[0]) return std::unexpected(outputs[0].error());
  CandidateRecorder recorder(environment.store, run, kernel.subject);
  for (size_t i = 1; i < outputs.size(); ++i) {
    KOPT_CHECK_OK(environment.CheckCancelled());
    CandidateRecord record;
    record.replacement = replacements[i];
    record.step = "recorded";
    Verdict verdict = JudgeText(replacements[i], *kernel.work.kernel, run.triton_version);
    if (verdict.accepted) {
      if (outputs[i]) {
        const KernelPair pair{.kernel = kernel.work.kernel,
                              .baseline_config = configs[0],
                              .candidate_config = configs[i],
                              .baseline = &*outputs[0],
                              .candidate = &*outputs[i]};
        verdict = JudgeBinary(pair, kernel.subject.sites, run.device);
      } else {
        verdict = CompileFailure(outputs[i].error());
      }
    }
    record.verdicts = {verdict};
    KOPT_CHECK_OK(recorder.Record(record));
    ++counts->candidates;
    if (verdict.accepted) {
      ++counts->passed;
    } else {
      ++counts->rejected[verdict.reason];
    }
  }
  return {};
}

Result<StepResult> CheckStep(Environment& environment, Run& run, Counts* counts) {
  std::vector<const ExtractedKernel*> kernels = InOrderOfTime(run.extraction);
  StepProgress progress(environment.events, environment.clock, "check",
                        static_cast<int64_t>(kernels.size()));
  for (const ExtractedKernel* kernel : kernels) {
    KOPT_CHECK_OK(environment.CheckCancelled());
    progress.Say(kernel->work.name);
    KOPT_CHECK_OK(CheckCandidates(environment, run, *kernel, counts));
    progress.Advance(kernel->work.name);
  }
  std::string message =
      fmt::format("{} of {} pass gate 1", counts->passed, Plural(counts->candidates, "candidate"));
  for (const auto& [reason, count] : counts->rejected) {
    message += fmt::format(", {} {}", count, reason);
  }
  return StepResult{std::move(message)};
}

}  // namespace

DeviceFacts DeviceOfRecord(const Capture& capture) {
  DeviceFacts facts;
  facts.name = capture.device_name;
  facts.compute_capability = capture.compute_capability;
  facts.sm_count = capture.sm_count;
  facts.l2_bytes = capture.l2_bytes;
  facts.shared_bytes_per_block = SharedBytesPerBlock(capture.compute_capability);
  return facts;
}

Result<Outcome> OptimizeRecording(Environment& environment, Run& run) {
  StepRunner steps(environment);
  run.versions = KOPT_TRY(environment.compiler.Versions());
  KOPT_TRY(steps.Run({.name = "extract",
                      .inputs = "",
                      .disabled = "",
                      .run = [&] { return ExtractStep(environment, run, run.options.recording); },
                      .verify = nullptr}));
  run.device = DeviceOfRecord(run.extraction.capture);
  run.triton_version = run.extraction.capture.triton;
  Counts counts;
  KOPT_TRY(steps.Run({.name = "check",
                      .inputs = "",
                      .disabled = "",
                      .run = [&] { return CheckStep(environment, run, &counts); },
                      .verify = nullptr}));
  Outcome outcome;
  outcome.result = "not_measured";
  outcome.reason = "no_gpu";
  outcome.message =
      "certification and gates 3 and 4 need a GPU; the compiler's kernels stay as they are";
  outcome.note = fmt::format(
      "with a GPU, `kernelopt optimize {}` would time the candidates beside the compiler's "
      "kernels, prove the fastest on all data and in the whole model, and write a pack",
      run.extraction.capture.model_file.empty() ? "MODEL.py" : run.extraction.capture.model_file);
  KOPT_CHECK_OK(RecordFacts(environment, run, outcome));
  KOPT_CHECK_OK(
      WriteFileAtomic(run.paths.Report(), ReportPage(KOPT_TRY(ReportData(environment.store)))));
  return outcome;
}

}  // namespace kernelopt
