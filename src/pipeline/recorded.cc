// A run on a recorded capture: all that can be done and shown without a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "pipeline/optimize.h"
#include "pipeline/shadow_search.h"
#include "profile/nominal_speeds.h"
#include "report/report.h"

namespace kernelopt {
namespace {

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

/// By the data sheet of the GPU that it was recorded on; else in the order of time.
Result<StepResult> EstimateRecording(Run& run) {
  if (run.extraction.kernels.empty()) return StepResult{"no generated kernel"};
  const auto speeds = NominalSpeeds(run.device.name);
  if (speeds) {
    run.speeds = *speeds;
    StepResult result = EstimateVariants(run);
    result.message += fmt::format(", by the data sheet of the {}", run.device.name);
    return result;
  }
  for (const ExtractedKernel* kernel : InOrderOfTime(run.extraction))
    run.order.push_back(kernel->work.key);
  return StepResult{
      fmt::format("the bandwidth of {} is not known here: kernels in the order of "
                  "their time",
                  run.device.name.empty() ? "the GPU" : run.device.name)};
}

/// So that the run's folder is all that another machine needs.
Status KeepRecording(const Run& run) {
  std::error_code error;
  const std::string to = run.paths.Capture();
  if (std::filesystem::equivalent(run.options.recording, to, error)) return {};
  std::filesystem::remove_all(to, error);
  std::filesystem::copy(run.options.recording, to, std::filesystem::copy_options::recursive, error);
  if (!error) return {};
  return Fail(ErrorKind::kEnvironment, "not_writable",
              fmt::format("the recording could not be copied there: {}; free some space or give "
                          "another --out",
                          error.message()),
              to);
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
  KOPT_CHECK_OK(KeepRecording(run));
  run.versions = KOPT_TRY(environment.compiler.Versions());
  KOPT_TRY(steps.Run({.name = "extract",
                      .inputs = "",
                      .disabled = "",
                      .run = [&] { return ExtractStep(environment, run, run.paths.Capture()); },
                      .verify = nullptr}));
  run.device = DeviceOfRecord(run.extraction.capture);
  run.triton_version = run.extraction.capture.triton;
  KOPT_TRY(steps.Run({.name = "estimate",
                      .inputs = "",
                      .disabled = "",
                      .run = [&] { return EstimateRecording(run); },
                      .verify = nullptr}));
  KOPT_TRY(steps.Run({.name = "search",
                      .inputs = "",
                      .disabled = run.order.empty() ? "nothing is worth searching" : "",
                      .run = [&] { return SearchOnShadow(environment, run); },
                      .verify = nullptr}));
  Outcome outcome;
  outcome.result = "not_measured";
  outcome.reason = "no_gpu";
  outcome.message =
      "certification and gates 3 and 4 need a GPU; the compiler's kernels stay as they are";
  const std::string& model = run.extraction.capture.model_file;
  outcome.note = fmt::format(
      "on a machine with an NVIDIA GPU, `kernelopt resume {} --model {}` times the candidates "
      "beside the compiler's kernels, proves the fastest on all data and in the whole model, and "
      "writes a pack",
      run.paths.folder, model.empty() ? "MODEL.py" : model);
  KOPT_CHECK_OK(RecordFacts(environment, run, outcome));
  KOPT_CHECK_OK(
      WriteFileAtomic(run.paths.Report(), ReportPage(KOPT_TRY(ReportData(environment.store)))));
  return outcome;
}

}  // namespace kernelopt
