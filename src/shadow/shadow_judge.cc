#include "shadow/shadow_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "device/runner.h"
#include "device/site_memory.h"
#include "shadow/missing_writes.h"
#include "shadow/runtime.h"

namespace kernelopt {
namespace {

/// Instances of a sample at least: the first, the last, and an edge of two axes; a mask may
/// leave a corner nothing to do.
constexpr int64_t kFewest = 4;

std::unexpected<Error> NeedsGpu() {
  return Fail(ErrorKind::kEnvironment, "job_error",
              "the shadow device measures no times: run it on a machine with a GPU");
}

std::string_view ReasonOf(const ShadowFinding& finding) {
  using Kind = ShadowFinding::Kind;
  switch (finding.kind) {
    case Kind::kOutOfBounds:
    case Kind::kMisaligned:
      return finding.is_store ? "wrote_outside" : "read_outside";
    case Kind::kUnwritten:
      return "read_unwritten";
    case Kind::kWriteWrite:
    case Kind::kReadWrite:
    case Kind::kLaneConflict:
      return "race";
    case Kind::kAssertion:
      return "assertion";
    default:
      return "endless";
  }
}

/// How many instances of the finer axis make one of the coarser; 0 where they don't.
int64_t Ratio(int64_t coarse, int64_t fine) {
  for (int64_t ratio = 1; ratio < 2 * fine; ratio *= 2)
    if ((fine + ratio - 1) / ratio == coarse) return ratio;
  return 0;
}

void Expand(const ShadowInstance& cell, const std::array<int64_t, 3>& ratio,
            const std::array<int64_t, 3>& grid, std::vector<ShadowInstance>* to) {
  for (int64_t z = 0; z < ratio[2]; ++z)
    for (int64_t y = 0; y < ratio[1]; ++y)
      for (int64_t x = 0; x < ratio[0]; ++x) {
        const ShadowInstance at = {static_cast<int32_t>(cell[0] * ratio[0] + x),
                                   static_cast<int32_t>(cell[1] * ratio[1] + y),
                                   static_cast<int32_t>(cell[2] * ratio[2] + z)};
        if (at[0] < grid[0] && at[1] < grid[1] && at[2] < grid[2]) to->push_back(at);
      }
}

/// A launch of some instances, and the storages after it.
struct Trial {
  ShadowRuntime runtime;
  std::unique_ptr<SiteMemory> memory;

  Status Run(const CheckJob& job, const Program& program, std::vector<ShadowInstance> instances,
             const DataSet& data, int64_t most_work) {
    runtime.SetMostWork(most_work);
    runtime.SetInstances(program.ttir_path, program.grid, std::move(instances));
    memory = KOPT_TRY(SiteMemory::Create(runtime, job.site, Placement::kMiddle));
    KOPT_CHECK_OK(memory->Prepare(data, 0));
    const int kernel = KOPT_TRY(runtime.Load(program));
    return runtime.Launch({kernel, memory->Arguments()});
  }
};

/// The first of `elements` that their suspects don't write when they run, with any data:
/// which of it an element was left out with isn't known, and masks may be of data.
Result<std::optional<int64_t>> FirstUnwritten(const CheckJob& job, int storage,
                                              const std::vector<UnwrittenElement>& elements,
                                              int64_t most_work) {
  std::set<ShadowInstance> suspects;
  for (const UnwrittenElement& each : elements) {
    if (each.suspects.empty()) return each.element;
    suspects.insert(each.suspects.begin(), each.suspects.end());
  }
  std::set<int64_t> left;
  for (const UnwrittenElement& each : elements) left.insert(each.element);
  for (const DataSet& data : job.data) {
    if (left.empty()) break;
    Trial trial;
    KOPT_CHECK_OK(
        trial.Run(job, job.candidate, {suspects.begin(), suspects.end()}, data, most_work));
    const ShadowStorage* after = trial.runtime.StorageAt(trial.memory->storage(storage).pointer);
    std::erase_if(left, [after](int64_t element) { return after->IsWritten(element); });
  }
  return left.empty() ? std::nullopt : std::optional(*left.begin());
}

/// The verdict on elements that a sample left out: rejected where no program of the whole
/// grid writes them.
Result<CheckResult> CheckLeftOut(const CheckJob& job, const ShadowRuntime& runtime,
                                 const std::vector<ShadowInstance>& ran, int64_t most_work,
                                 CheckResult result) {
  for (const auto& [argument, elements] : runtime.left_out()) {
    const int storage = job.site.arguments[static_cast<size_t>(argument)].storage;
    const auto never = KOPT_TRY(
        NeverWritten(job.candidate, job.site, storage, {elements.begin(), elements.end()}, ran));
    const auto first = FirstUnwritten(job, storage, never, most_work);
    if (!first || !*first) continue;
    result.reason = "not_written";
    result.message = fmt::format(
        "no program of the candidate writes element {} of storage {}, which the compiler's kernel "
        "writes",
        **first, storage);
    result.worst_storage = storage;
    result.worst_index = **first;
    break;
  }
  return result;
}

int64_t CountOf(const std::array<int64_t, 3>& grid) {
  return grid[0] * grid[1] * grid[2];
}

}  // namespace

std::optional<ShadowPlan> PlanInstances(const std::array<int64_t, 3>& baseline,
                                        const std::array<int64_t, 3>& candidate, int64_t most,
                                        uint64_t seed) {
  std::array<int64_t, 3> cells, of_baseline, of_candidate;
  for (size_t axis = 0; axis < 3; ++axis) {
    cells[axis] = std::min(baseline[axis], candidate[axis]);
    of_baseline[axis] = Ratio(cells[axis], baseline[axis]);
    of_candidate[axis] = Ratio(cells[axis], candidate[axis]);
    if (of_baseline[axis] == 0 || of_candidate[axis] == 0) return std::nullopt;
  }
  ShadowPlan plan;
  const std::vector<ShadowInstance> chosen = SampleInstances(cells, most, seed);
  plan.whole = static_cast<int64_t>(chosen.size()) == CountOf(cells);
  for (const ShadowInstance& cell : chosen) {
    Expand(cell, of_baseline, baseline, &plan.baseline);
    Expand(cell, of_candidate, candidate, &plan.candidate);
  }
  return plan;
}

Result<DeviceFacts> ShadowJudge::Facts() {
  return ShadowRuntime().Facts();
}
Result<DeviceSpeeds> ShadowJudge::Speeds() {
  return NeedsGpu();
}
Result<TimeResult> ShadowJudge::Time(const TimeJob&) {
  return NeedsGpu();
}

Result<int64_t> ShadowJudge::WorkOf(const CheckJob& job, const Program& program) const {
  Trial trial;
  const Status status = trial.Run(job, program, {{0, 0, 0}},
                                  job.data.empty() ? DataSet{} : job.data[0], options_.most_work);
  if (!status && status.error().code != "shadow_finding") return std::unexpected(status.error());
  return std::max<int64_t>(trial.runtime.last_report().work, 1);
}

Result<CheckResult> ShadowJudge::Check(const CheckJob& job) {
  last_ = {};
  const int64_t baseline_work = KOPT_TRY(WorkOf(job, job.baseline));
  const int64_t candidate_work = KOPT_TRY(WorkOf(job, job.candidate));
  const int64_t baseline_count = CountOf(job.baseline.grid);
  const int64_t candidate_count = CountOf(job.candidate.grid);
  const bool fits = baseline_work <= options_.work / baseline_count &&
                    candidate_work <= options_.work / candidate_count;
  ShadowRuntime runtime;
  runtime.SetDeadline(job.time_limit_ms / 1000.0);
  runtime.SetMostWork(options_.most_work);
  last_.instances = baseline_count;
  std::vector<ShadowInstance> ran;  // of the candidate, where it is sampled
  if (!fits) {
    const int64_t cells = std::max<int64_t>(1, std::min(baseline_count, candidate_count));
    // Work of a cell: the whole, spread over the cells.
    const double of_cell =
        std::max(static_cast<double>(baseline_work) * static_cast<double>(baseline_count),
                 static_cast<double>(candidate_work) * static_cast<double>(candidate_count)) /
        static_cast<double>(cells);
    const int64_t most = std::max<int64_t>(
        kFewest, static_cast<int64_t>(static_cast<double>(options_.work) / of_cell));
    const auto plan = PlanInstances(job.baseline.grid, job.candidate.grid, most, options_.seed);
    if (!plan) {
      if (baseline_work > options_.most_work / baseline_count ||
          candidate_work > options_.most_work / candidate_count)
        return Fail(ErrorKind::kEnvironment, "out_of_memory",
                    "the grids of candidate and compiler's kernel don't fit together, and the "
                    "kernel is too large to be run whole on the shadow device");
    } else if (!plan->whole) {
      last_.instances = static_cast<int64_t>(plan->baseline.size());
      last_.share = static_cast<double>(last_.instances) / static_cast<double>(baseline_count);
      runtime.SetInstances(job.baseline.ttir_path, job.baseline.grid, plan->baseline);
      if (job.twin) runtime.SetInstances(job.twin->ttir_path, job.twin->grid, plan->baseline);
      runtime.SetInstances(job.candidate.ttir_path, job.candidate.grid, plan->candidate);
      ran = plan->candidate;
    }
  }
  CheckJob once = job;
  once.guard_pages = false;  // every access is checked
  auto result = RunCheck(runtime, once);
  last_.compared = runtime.compared();
  last_.wanted = runtime.wanted();
  if (result && result->ok() && !ran.empty())
    return CheckLeftOut(job, runtime, ran, options_.most_work, std::move(*result));
  if (result) return result;
  if (result.error().code != "shadow_finding") return result;
  last_.finding = runtime.last_finding();
  // The site's number of the storage.
  const int argument = runtime.last_argument();
  last_.finding->storage =
      argument < 0 ? -1 : job.site.arguments[static_cast<size_t>(argument)].storage;
  if (result.error().where == "baseline")
    return Fail(ErrorKind::kUsage, "job_error", "the compiler's kernel: " + result.error().message,
                "baseline");
  CheckResult found;
  found.reason = ReasonOf(*last_.finding);
  found.message = Describe(*last_.finding);
  found.worst_storage = last_.finding->storage;
  found.worst_index = last_.finding->index;
  return found;
}

}  // namespace kernelopt
