// Commands on runs: estimate, optimize, resume, show, report, replay, try.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "pipeline/environment.h"
#include "pipeline/machine.h"
#include "pipeline/optimize.h"
#include "pipeline/replay.h"
#include "pipeline/run.h"
#include "pipeline/show.h"
#include "pipeline/temporary_folder.h"
#include "pipeline/try.h"
#include "report/report.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;

/// A path that holds whatever the current folder is when the run is resumed.
std::string Absolute(const std::string& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error);
  return path.empty() || error ? path : absolute.lexically_normal().string();
}

/// Requests and records are JSON, which can't hold another name.
Status CheckUtf8(const std::string& path) {
  if (IsUtf8(path)) return {};
  return Fail(ErrorKind::kUsage, "bad_path", "the path is not UTF-8; use another folder", path);
}

Result<RunOptions> WithAbsolutePaths(RunOptions options, const std::string& folder) {
  if (options.model.empty() && options.recording.empty()) {
    return Fail(ErrorKind::kUsage, "usage",
                "the path of the model is missing; give MODEL.py, or for `optimize` also "
                "--recording FOLDER");
  }
  // The user's own spelling is what an error has to name.
  KOPT_CHECK_OK(CheckOptions(options));
  options.model = Absolute(options.model);
  options.recording = Absolute(options.recording);
  for (const std::string& path : {options.model, options.recording, Absolute(folder)}) {
    KOPT_CHECK_OK(CheckUtf8(path));
  }
  return options;
}

/// Everything that one run needs, for as long as it lasts.
struct Session {
  SystemClock clock;
  std::unique_ptr<EventSink> log;
  std::unique_ptr<TeeSink> events;
  std::unique_ptr<Machine> machine;
  std::unique_ptr<Store> store;

  Environment MakeEnvironment(bool recorded) {
    return Environment{.judge = recorded ? nullptr : &machine->judge(),
                       .model = recorded ? nullptr : &machine->model(),
                       .compiler = machine->compiler(),
                       .store = *store,
                       .clock = clock,
                       .events = *events,
                       .cancelled = [] { return CancelRequested(); },
                       .cache = machine->cache(),
                       .version = KERNELOPT_VERSION,
                       .program = machine->program()};
  }
};

Status OpenSession(Output& output, const CommonArguments& common, std::unique_ptr<Store> store,
                   Session* session) {
  session->store = std::move(store);
  session->log = KOPT_TRY(MakeLogSink(RunPaths(session->store->Folder()).Log(), session->clock));
  session->events =
      std::make_unique<TeeSink>(std::vector<EventSink*>{&output.events(), session->log.get()});
  session->machine = KOPT_TRY(Machine::Open(common.python));
  return {};
}

/// Runs the pipeline in a folder and prints how it ended.
Status RunIn(Output& output, const CommonArguments& common, RunOptions options,
             std::unique_ptr<Store> store) {
  std::string folder = store->Folder();
  Session session;
  KOPT_CHECK_OK(OpenSession(output, common, std::move(store), &session));
  bool recorded = options.model.empty();
  Environment environment = session.MakeEnvironment(recorded);
  Run run(std::move(options), folder);
  auto outcome = recorded ? OptimizeRecording(environment, run) : OptimizeModel(environment, run);
  if (!outcome) {
    Error error = outcome.error();
    if (error.kind == ErrorKind::kInterrupted) {
      error.message = fmt::format("stopped as asked; `kernelopt resume {}` goes on", folder);
    }
    RunEvent event;
    event.kind = RunEvent::Kind::kError;
    event.message = error.ToString();
    session.log->Emit(event);
    return std::unexpected(std::move(error));
  }
  RunEvent event;
  event.kind = RunEvent::Kind::kResult;
  event.message = ClosingLines(run, *outcome);
  event.data = DumpJson({{"message", outcome->message},
                         {"result", outcome->result},
                         {"reason", outcome->reason},
                         {"note", outcome->note},
                         {"pack", run.pack},
                         {"run", folder},
                         {"report", run.paths.Report()}});
  session.events->Emit(event);
  return {};
}

std::string EstimateTable(const Run& run) {
  std::string text;
  for (size_t v = 0; v < run.estimates.size(); ++v) {
    const ModelEstimate& estimate = run.estimates[v];
    text += fmt::format(
        "\n{}: {:.1f} us a call, {:.1f} us in generated kernels, {:.1f} us in "
        "library calls\n",
        run.extraction.capture.variants[v].Name(), estimate.model_us, estimate.triton_us,
        estimate.extern_us);
    size_t shown = std::min<size_t>(estimate.kernels.size(), 10);
    if (shown > 0)
      text += fmt::format("{:>9} {:>9} {:>9}  kernel\n", "time us", "floor us", "gain");
    for (size_t k = 0; k < shown; ++k) {
      const KernelEstimate& kernel = estimate.kernels[k];
      const ExtractedKernel* extracted = run.extraction.Find(kernel.key);
      bool refused = extracted != nullptr && !extracted->refused.empty();
      text += fmt::format("{:>9.1f} {:>9.1f} {:>8.2f}%  {}{}\n", kernel.time_us, kernel.floor_us,
                          100 * kernel.share, kernel.name,
                          refused ? " (kept: " + extracted->refused + ")" : "");
    }
    if (shown < estimate.kernels.size()) {
      text += fmt::format("{:>30}  {} more\n", "", estimate.kernels.size() - shown);
    }
    text += Summary(estimate) + "\n";
  }
  return text;
}

}  // namespace

Status EstimateModel(Output& output, const CommonArguments& common, const RunOptions& options,
                     const std::string& folder) {
  RunOptions absolute = KOPT_TRY(WithAbsolutePaths(options, folder));
  // Without --out nothing stays behind.
  std::optional<TemporaryFolder> temporary;
  if (folder.empty()) temporary = KOPT_TRY(TemporaryFolder::Make("kernelopt-estimate"));
  std::string where = temporary ? temporary->path() : folder;
  Session session;
  KOPT_CHECK_OK(OpenSession(output, common, KOPT_TRY(OpenRun(absolute, where)), &session));
  Environment environment = session.MakeEnvironment(false);
  Run run(absolute, where);
  KOPT_CHECK_OK(EstimateOnly(environment, run));
  Json variants = Json::array();
  for (size_t v = 0; v < run.estimates.size(); ++v) {
    Json estimate = ToJson(run.estimates[v]);
    estimate["variant"] = run.extraction.capture.variants[v].Name();
    variants.push_back(std::move(estimate));
  }
  RunEvent event;
  event.kind = RunEvent::Kind::kResult;
  event.message = EstimateTable(run);
  event.data = DumpJson({{"message", "estimated"}, {"estimates", variants}});
  session.events->Emit(event);
  return {};
}

Status Optimize(Output& output, const CommonArguments& common, const RunOptions& options,
                const std::string& folder) {
  RunOptions absolute = KOPT_TRY(WithAbsolutePaths(options, folder));
  std::unique_ptr<Store> store = KOPT_TRY(OpenRun(absolute, folder));
  return RunIn(output, common, std::move(absolute), std::move(store));
}

Status Resume(Output& output, const CommonArguments& common, const std::string& folder,
              const std::string& model) {
  OpenedRun opened = KOPT_TRY(ReopenRun(folder, StoreMode::kWrite));
  if (!model.empty()) {
    KOPT_CHECK_OK(CheckUtf8(Absolute(model)));
    KOPT_CHECK_OK(TakeModel(*opened.store, &opened.options, Absolute(model)));
  }
  return RunIn(output, common, std::move(opened.options), std::move(opened.store));
}

Status Show(Output& output, const std::string& folder, const std::string& kernel) {
  OpenedRun opened = KOPT_TRY(ReopenRun(folder, StoreMode::kRead));
  Json data = KOPT_TRY(ReportData(*opened.store));
  if (kernel.empty()) {
    output.Print(ReportSummary(data), DumpJson(data));
    return {};
  }
  KernelStory story = KOPT_TRY(TellKernel(*opened.store, data, kernel));
  output.Print(story.text, DumpJson(story.data));
  return {};
}

Status Report(Output& output, const std::string& folder) {
  OpenedRun opened = KOPT_TRY(ReopenRun(folder, StoreMode::kRead));
  std::string path = RunPaths(folder).Report();
  KOPT_CHECK_OK(WriteFileAtomic(path, ReportPage(KOPT_TRY(ReportData(*opened.store)))));
  output.Print(path, DumpJson({{"report", path}}));
  return {};
}

Status Replay(Output& output, const CommonArguments& common, const std::string& folder,
              const std::string& verdict) {
  OpenedRun opened = KOPT_TRY(ReopenRun(folder, StoreMode::kWrite));
  Session session;
  KOPT_CHECK_OK(OpenSession(output, common, std::move(opened.store), &session));
  Environment environment = session.MakeEnvironment(opened.options.model.empty());
  Run run(std::move(opened.options), folder);
  ReplayedVerdict replayed = KOPT_TRY(ReplayVerdict(environment, run, verdict));
  output.Print(replayed.text, DumpJson(replayed.data));
  return {};
}

Status Try(Output& output, const CommonArguments& common, const std::string& folder,
           const std::string& kernel, const std::string& candidate) {
  OpenedRun opened = KOPT_TRY(ReopenRun(folder, StoreMode::kWrite));
  Session session;
  KOPT_CHECK_OK(OpenSession(output, common, std::move(opened.store), &session));
  Environment environment = session.MakeEnvironment(opened.options.model.empty());
  Run run(std::move(opened.options), folder);
  Trial trial = KOPT_TRY(TryCandidate(environment, run, kernel, candidate));
  if (!trial.accepted) output.SetExitCode(kExitRejected);
  RunEvent event;
  event.kind = RunEvent::Kind::kResult;
  event.message = ClosingLines(run, trial);
  event.data = DumpJson(ToJson(trial));
  session.events->Emit(event);
  return {};
}

}  // namespace kernelopt
