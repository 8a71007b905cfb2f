#include "pipeline/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/plural.h"
#include "pipeline/doctor.h"
#include "pipeline/gpu_lock.h"
#include "pipeline/kernels.h"
#include "pipeline/stitching.h"

namespace kernelopt {
namespace {

/// Runs a step while no other run measures on the GPU.
auto WithGpu(Environment& environment, const Run& run, const std::string& step,
             std::function<Result<StepResult>()> body) {
  return [&environment, &run, step, body = std::move(body)]() -> Result<StepResult> {
    GpuLock lock = KOPT_TRY(GpuLock::Take(
        run.device.uuid, environment.cache,
        [&] {
          RunEvent event;
          event.kind = RunEvent::Kind::kProgress;
          event.step = step;
          event.message = "waiting for another run on this GPU";
          environment.events.Emit(event);
        },
        environment.cancelled));
    return body();
  };
}

Result<StepResult> CaptureModel(Environment& environment, Run& run) {
  StepProgress progress(environment.events, environment.clock, "capture", 0);
  environment.compiler.Prepare();  // the next step's, while this one waits for the model
  KOPT_CHECK_OK(environment.judge->Release());
  std::error_code error;
  std::filesystem::remove_all(run.paths.Capture(), error);  // of another model text, or half made
  KOPT_CHECK_OK(MakeFolder(run.paths.Capture()));
  KOPT_CHECK_OK(environment.model->Capture({run.options.model, run.options.entry},
                                           run.options.Variants(), run.paths.Capture(),
                                           [&](const std::string& step) { progress.Say(step); }));
  auto capture = KOPT_TRY(ReadCapture(run.paths.Capture()));
  size_t graphs = 0;
  int breaks = 0;
  for (const Variant& variant : capture.variants) {
    graphs += variant.graphs.size();
    breaks += variant.graph_breaks;
  }
  std::string message = fmt::format("{} in {}", Plural(graphs, "graph"),
                                    Plural(capture.modules.size(), "generated module"));
  if (breaks > 0) message += fmt::format(", {}", Plural(breaks, "graph break"));
  return StepResult{std::move(message)};
}

Status VerifyCapture(const Run& run) {
  auto capture = KOPT_TRY(ReadCapture(run.paths.Capture()));
  std::vector<VariantSpec> wanted = run.options.Variants();
  bool same = capture.variants.size() == wanted.size();
  for (size_t i = 0; same && i < wanted.size(); ++i) {
    same = capture.variants[i].Name() == wanted[i].Name();
  }
  if (same) return {};
  return Fail(ErrorKind::kInternal, "incomplete_capture",
              "the capture doesn't have the variants that were asked for", run.paths.Capture());
}

Result<std::string> CaptureInputs(const Run& run) {
  std::string model = KOPT_TRY(ReadFile(run.options.model));
  Json json = {Sha256Hex(model), run.options.entry, run.gpu_id, run.versions};
  for (const VariantSpec& variant : run.options.Variants()) json.push_back(variant.Name());
  return Sha256Hex(DumpJson(json));
}

Result<StepResult> EstimateStep(Environment& environment, Run& run) {
  if (run.extraction.kernels.empty()) return StepResult{"no generated kernel"};
  KOPT_CHECK_OK(PrepareJudge(environment, run));
  return EstimateVariants(run);
}

Status UpToEstimate(Environment& environment, Run& run, StepRunner& steps) {
  KOPT_CHECK_OK(PrepareRun(environment, run));
  KOPT_TRY(steps.Run(
      {.name = "capture",
       .inputs = KOPT_TRY(CaptureInputs(run)),
       .disabled = "",
       .run = WithGpu(environment, run, "capture", [&] { return CaptureModel(environment, run); }),
       .verify = [&](const StepResult&) { return VerifyCapture(run); }}));
  KOPT_TRY(steps.Run({.name = "extract",
                      .inputs = "",
                      .disabled = "",
                      .run = [&] { return ExtractStep(environment, run, run.paths.Capture()); },
                      .verify = nullptr}));
  KOPT_TRY(steps.Run(
      {.name = "estimate",
       .inputs = "",
       .disabled = "",
       .run = WithGpu(environment, run, "estimate", [&] { return EstimateStep(environment, run); }),
       .verify = nullptr}));
  // What is known by now, for `show` while the run goes on or after it was killed.
  return RecordFacts(environment, run,
                     {"unfinished", "", "the run has not ended; `kernelopt resume` goes on", ""});
}

}  // namespace

Status PrepareRun(Environment& environment, Run& run) {
  HostFacts host = KOPT_TRY(ReadHost(*environment.model));
  KOPT_CHECK_OK(CheckVersions(host.torch, host.triton));
  if (!host.cuda) {
    // The model's own faults are worth more to the user than a missing GPU; the
    // worker looks for them first.
    KOPT_CHECK_OK(environment.model->Capture({run.options.model, run.options.entry},
                                             run.options.Variants(), run.paths.Capture(),
                                             [](const std::string&) {}));
    return Fail(ErrorKind::kEnvironment, "no_gpu",
                "torch sees no NVIDIA GPU; run it on a machine with one, or give a recorded "
                "capture with --recording");
  }
  run.device = host.device;
  run.gpu_id = GpuId(run.device);
  run.versions = fmt::format("torch {}, triton {}", host.torch, host.triton);
  run.triton_version = host.triton;
  return {};
}

Status PrepareJudge(Environment& environment, Run& run) {
  DeviceFacts facts = KOPT_TRY(environment.judge->Facts());
  // torch calls a MIG device's UUID by another prefix.
  auto bare = [](const std::string& uuid) { return uuid.substr(std::min<size_t>(4, uuid.size())); };
  if (bare(facts.uuid) != bare(run.device.uuid)) {
    return Fail(ErrorKind::kEnvironment, "gpu_mismatch",
                fmt::format("torch uses {} and the judge {}; set CUDA_VISIBLE_DEVICES to one GPU",
                            run.device.uuid, facts.uuid));
  }
  facts.mig = run.device.mig;  // the GPU's id must not change within a run
  run.device = facts;
  MeasuredGpu measured = KOPT_TRY(MeasureSpeeds(environment, run.device));
  run.speeds = measured.speeds;
  run.noise_us = measured.noise_us;
  return {};
}

Result<StepResult> ExtractStep(Environment& environment, Run& run, const std::string& folder) {
  StepProgress progress(environment.events, environment.clock, "extract", 0);
  progress.Say("reading the generated modules");
  int64_t before = 0;
  run.extraction = KOPT_TRY(Extract(folder, environment.compiler, [&](size_t done, size_t of) {
    progress.SetTotal(static_cast<int64_t>(of));
    for (; before < static_cast<int64_t>(done); ++before) {
      progress.Advance("compiling the compiler's kernels");
    }
  }));
  size_t refused = std::ranges::count_if(
      run.extraction.kernels, [](const ExtractedKernel& k) { return !k.refused.empty(); });
  std::string message = fmt::format(
      "{}, {}", Plural(run.extraction.kernels.size(), "generated kernel"),
      run.extraction.launches == 1 ? "1 launch"
                                   : fmt::format("{} launches", run.extraction.launches));
  if (refused > 0) message += fmt::format(" ({} left alone)", Plural(refused, "kernel"));
  message += ", " + Plural(run.extraction.externs, "library call");
  return StepResult{std::move(message)};
}

StepResult EstimateVariants(Run& run) {
  std::map<std::string, std::vector<PointerUse>> uses;
  std::vector<KernelWork> work;
  for (ExtractedKernel& kernel : run.extraction.kernels) {
    work.push_back(kernel.work);
    if (kernel.uses.empty()) continue;
    uses[kernel.work.key] = kernel.uses;
    for (BuiltSite& site : kernel.subject.sites) {
      site.floor_us = FloorUs(
          BytesOfLaunch(run.extraction.capture, site.where, *kernel.work.kernel, kernel.uses),
          run.speeds);
    }
  }
  run.estimates.clear();
  std::map<std::string, double> share;
  std::string message;
  for (size_t v = 0; v < run.extraction.capture.variants.size(); ++v) {
    ModelEstimate estimate =
        Estimate(run.extraction.capture, static_cast<int>(v), work, uses, run.speeds);
    for (size_t k = 0; k < estimate.worthwhile && k < estimate.kernels.size(); ++k) {
      double& most = share[estimate.kernels[k].key];
      most = std::max(most, estimate.kernels[k].share);
    }
    if (!message.empty()) message += "; ";
    if (run.extraction.capture.variants.size() > 1) {
      message += run.extraction.capture.variants[v].Name() + " ";
    }
    message += Summary(estimate);
    run.estimates.push_back(std::move(estimate));
  }
  run.order.clear();
  for (const auto& [key, value] : share) {
    const ExtractedKernel* kernel = run.extraction.Find(key);
    if (kernel != nullptr && kernel->refused.empty()) run.order.push_back(key);
  }
  std::ranges::stable_sort(
      run.order, [&](const std::string& a, const std::string& b) { return share[a] > share[b]; });
  return StepResult{std::move(message)};
}

Status EstimateOnly(Environment& environment, Run& run) {
  StepRunner steps(environment);
  return UpToEstimate(environment, run, steps);
}

Result<Outcome> OptimizeModel(Environment& environment, Run& run) {
  StepRunner steps(environment);
  KOPT_CHECK_OK(UpToEstimate(environment, run, steps));
  KOPT_TRY(steps.Run(
      {.name = "search",
       .inputs = "",
       .disabled = run.order.empty() ? "nothing is worth searching" : "",
       .run = WithGpu(environment, run, "search", [&] { return SearchKernels(environment, run); }),
       .verify = nullptr}));
  bool winners = std::ranges::any_of(
      run.results, [](const auto& item) { return item.second.outcome.winner.has_value(); });
  KOPT_TRY(steps.Run({.name = "certify",
                      .inputs = "",
                      .disabled = winners ? "" : "nothing to prove",
                      .run = WithGpu(environment, run, "certify",
                                     [&] { return CertifyWinners(environment, run); }),
                      .verify = nullptr}));
  bool certified =
      std::ranges::any_of(run.results, [](const auto& item) { return item.second.certified(); });
  KOPT_TRY(steps.Run(
      {.name = "stitch",
       .inputs = "",
       .disabled = certified ? "" : "nothing to put into the model",
       .run = WithGpu(environment, run, "stitch", [&] { return StitchVariants(environment, run); }),
       .verify = nullptr}));
  KOPT_TRY(steps.Run({.name = "pack",
                      .inputs = "",
                      .disabled = "",
                      .run = [&] { return WritePackAndReport(environment, run); },
                      .verify = [&](const StepResult&) -> Status {
                        if (run.pack.empty()) return {};
                        KOPT_TRY(CheckPack(run.pack));
                        return {};
                      }}));
  return DecideOutcome(run);
}

}  // namespace kernelopt
