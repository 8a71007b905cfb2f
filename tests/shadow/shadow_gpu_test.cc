// shadow_gpu_test: the evaluator against a GPU. Each job of a folder that gpu_jobs.py
// made runs on both, on the same generated data; the GPU runs the whole grid, the
// evaluator a sample of its instances, whose elements are compared.
//
//   shadow_gpu_test [--offline] [FOLDER]       FOLDER: by default build/shadow-jobs
//
// Where a kernel has no operation whose last bits the hardware may choose, all bits must
// be equal; else floats must keep the error rule with the float64 twin as the reference
// and the GPU's kernel as the yardstick, and all else be equal. Prints a line a job and
// data set, and each difference with its element and both values. --offline: a second
// evaluation takes the GPU's place, which shows that the jobs can be run.
// Exit codes: 0 all the same, 1 differences, 2 no jobs, 3 no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "device/data.h"
#include "device/error_rule.h"
#include "device/site_memory.h"
#include "device/twin_reference.h"
#include "jobs.h"
#include "judge/cuda_runtime.h"
#include "shadow/runtime.h"
#include "ttir/promote.h"

namespace kernelopt {
namespace {

/// Lanes that one launch of the sample may compute.
constexpr int64_t kWork = 4'000'000;
constexpr DataSet kData[] = {{DataFamily::kNormal, 0, false}, {DataFamily::kUniform, 1, true}};

struct GpuJob : ShadowJob {
  std::optional<Program> twin;
  bool exact = false;  ///< no operation whose last bits are the hardware's
};

/// What both sides computed for one data set.
struct Comparison {
  int64_t elements = 0, equal = 0;
  std::vector<std::string> differences;
  double max_z = 0, own_max_z = 0;
};

Result<GpuJob> ReadJob(const Json& json, const std::string& folder) {
  GpuJob job{KOPT_TRY(ReadShadowJob(json, folder)), {}, false};
  job.exact = KOPT_TRY(CompileShadowProgram(job.module)).unspecified == 0;
  if (auto twin = PromoteToFloat64(job.module, job.written_floats)) {
    job.twin = job.program;
    job.twin->ttir_path = job.program.ttir_path + ".twin";
    KOPT_CHECK_OK(WriteFileAtomic(job.twin->ttir_path, twin->text));
  }
  return job;
}

/// The widest float type that is moved for the conditioning.
DType PerturbedType(const Site& site) {
  DType type = DType::kBFloat16;
  for (const StorageSpec& spec : site.storages)
    if (spec.role == StorageRole::kData && KoptIsFloat(static_cast<int>(spec.dtype)) &&
        SizeOf(spec.dtype) >= 4)
      type = spec.dtype;
  return type;
}

/// The evaluator runs as many instances as fit.
Result<std::vector<ShadowInstance>> Sample(const GpuJob& job) {
  ShadowRuntime runtime;
  runtime.SetInstances(job.program.ttir_path, job.program.grid, {{0, 0, 0}});
  auto memory = KOPT_TRY(SiteMemory::Create(runtime, job.site, Placement::kMiddle));
  KOPT_CHECK_OK(memory->Prepare(kData[0], 0));
  const int kernel = KOPT_TRY(runtime.Load(job.program));
  KOPT_CHECK_OK(runtime.Launch({kernel, memory->Arguments()}));
  const int64_t work = std::max<int64_t>(runtime.last_report().work, 1);
  return SampleInstances(job.program.grid, std::max<int64_t>(kWork / work, 2), 1);
}

/// One job on both sides.
class Pair {
 public:
  Pair(KernelRuntime& gpu, const GpuJob& job) : gpu_(gpu), job_(job) {}
  ~Pair() {
    if (gpu_kernel_ >= 0) gpu_.Unload(gpu_kernel_);
  }

  Status Prepare() {
    const std::vector<ShadowInstance> sample = KOPT_TRY(Sample(job_));
    shadow_.SetInstances(job_.program.ttir_path, job_.program.grid, sample);
    shadow_kernel_ = KOPT_TRY(shadow_.Load(job_.program));
    shadow_memory_ = KOPT_TRY(SiteMemory::Create(shadow_, job_.site, Placement::kMiddle));
    if (job_.twin) {
      shadow_.SetInstances(job_.twin->ttir_path, job_.twin->grid, sample);
      twin_ = KOPT_TRY(TwinReference::Create(shadow_, *job_.twin, job_.site));
    }
    if (auto* second = dynamic_cast<ShadowRuntime*>(&gpu_))
      second->SetInstances(job_.program.ttir_path, job_.program.grid, sample);
    gpu_kernel_ = KOPT_TRY(gpu_.Load(job_.program));
    gpu_memory_ = KOPT_TRY(SiteMemory::Create(gpu_, job_.site, Placement::kMiddle));
    return {};
  }

  Result<Comparison> Run(const DataSet& data) {
    if (twin_ != nullptr)
      KOPT_CHECK_OK(twin_->Run(*shadow_memory_, data, kPerturbations, PerturbedType(job_.site)));
    KOPT_CHECK_OK(shadow_memory_->Prepare(data, 0));
    KOPT_CHECK_OK(shadow_.Launch({shadow_kernel_, shadow_memory_->Arguments()}));
    KOPT_CHECK_OK(gpu_memory_->Prepare(data, 0));
    KOPT_CHECK_OK(gpu_.Launch({gpu_kernel_, gpu_memory_->Arguments()}));
    KOPT_CHECK_OK(gpu_.Synchronize());
    Comparison comparison;
    for (size_t i = 0; i < job_.site.storages.size(); ++i)
      if (job_.site.storages[i].written)
        KOPT_CHECK_OK(CompareStorage(static_cast<int>(i), &comparison));
    return comparison;
  }

 private:
  static constexpr int kPerturbations = 4;

  /// Runs of pages that were written, as elements [begin, end).
  static std::vector<std::pair<int64_t, int64_t>> Written(const ShadowStorage& storage) {
    constexpr int64_t kMost = 2048;  // pages
    std::set<int64_t> pages;
    for (const auto& [number, page] : storage.pages()) pages.insert(number);
    std::vector<std::pair<int64_t, int64_t>> runs;
    for (int64_t page : pages) {
      const int64_t begin = page * kShadowPageElements;
      const int64_t end = std::min(begin + kShadowPageElements, storage.elements());
      if (!runs.empty() && runs.back().second == begin &&
          end - runs.back().first <= kMost * kShadowPageElements)
        runs.back().second = end;
      else
        runs.emplace_back(begin, end);
    }
    return runs;
  }

  Status CompareStorage(int number, Comparison* comparison) {
    const StorageSpec& spec = job_.site.storages[static_cast<size_t>(number)];
    const int dtype = static_cast<int>(spec.dtype);
    const ShadowStorage& ours = *shadow_.StorageAt(shadow_memory_->storage(number).pointer);
    const bool has_twin = twin_ != nullptr && twin_->values(number) != 0 &&
                          spec.dtype != DType::kFloat64 && KoptIsFloat(dtype);
    const ShadowStorage* exact = has_twin ? shadow_.StorageAt(twin_->values(number)) : nullptr;
    const ShadowStorage* sums = has_twin ? shadow_.StorageAt(twin_->conditioning(number)) : nullptr;
    KoptStats stats;
    KoptClearStats(&stats);
    int64_t elements = 0;
    for (const auto& [begin, end] : Written(ours)) {
      const int size = SizeOf(spec.dtype);
      std::string theirs(static_cast<size_t>((end - begin) * size), '\0');
      KOPT_CHECK_OK(gpu_.CopyToHost(
          theirs.data(), gpu_memory_->storage(number).pointer + static_cast<uint64_t>(begin * size),
          static_cast<int64_t>(theirs.size())));
      for (int64_t index = begin; index < end; ++index) {
        if (!ours.IsWritten(index)) continue;
        ++elements;
        KoptCompareElement(
            &stats, ours.Element(index), LoadElement(theirs.data(), index - begin, spec.dtype),
            has_twin, has_twin ? KOPT_DOUBLE_OF_BITS(exact->Element(index)) : 0,
            sums != nullptr && sums->element_bytes() == 4 ? KOPT_FLOAT_OF_BITS(sums->Element(index))
                                                          : 0,
            kPerturbations, index, dtype, -1);
      }
    }
    comparison->elements += elements;
    comparison->equal += elements - stats.differing;
    comparison->max_z = std::max(comparison->max_z, stats.max_z);
    comparison->own_max_z = std::max(comparison->own_max_z, stats.own_max_z);
    return Conclude(number, stats, has_twin, comparison);
  }

  Status Conclude(int number, const KoptStats& stats, bool has_twin, Comparison* comparison) {
    const auto say = [&](std::string_view what, int64_t count, int64_t index) -> Status {
      const DType dtype = job_.site.storages[static_cast<size_t>(number)].dtype;
      const int size = SizeOf(dtype);
      const auto at = static_cast<uint64_t>(index * size);
      uint64_t ours = 0, theirs = 0;
      KOPT_CHECK_OK(shadow_.CopyToHost(&ours, shadow_memory_->storage(number).pointer + at, size));
      KOPT_CHECK_OK(gpu_.CopyToHost(&theirs, gpu_memory_->storage(number).pointer + at, size));
      comparison->differences.push_back(fmt::format(
          "{} {}: storage {} element {}: shadow {:.9g} ({:#x}), GPU {:.9g} ({:#x})", count, what,
          number, index, ElementValue(ours, dtype), ours, ElementValue(theirs, dtype), theirs));
      return {};
    };
    if (stats.bad_integer > 0)
      return say("integers differ", stats.bad_integer, stats.first_bad_integer);
    if (stats.differing == 0) return {};
    if (job_.exact)
      return say("bits differ, where all operations are exact", stats.differing,
                 stats.first_differing);
    if (stats.bad_class > 0)
      return say("not finite on one side only", stats.bad_class, stats.first_bad_class);
    if (!has_twin)
      return say("bits differ, and there is no twin", stats.differing, stats.first_differing);
    if (stats.bad_aside > 0)
      return say("far from twin and GPU", stats.bad_aside, stats.first_bad_aside);
    ErrorPool pool;
    pool.Add(stats, 0);
    const std::string violation = Violation(pool, ErrorRule{}, true);
    return violation.empty() ? Status{} : say(violation, 1, stats.max_index);
  }

  KernelRuntime& gpu_;
  const GpuJob& job_;
  ShadowRuntime shadow_;
  std::unique_ptr<SiteMemory> shadow_memory_, gpu_memory_;
  std::unique_ptr<TwinReference> twin_;
  int shadow_kernel_ = -1, gpu_kernel_ = -1;
};

/// Jobs that differ.
Result<int> CompareAll(const std::string& folder, bool offline) {
  const std::string path = folder + "/jobs.json";
  const Json jobs = KOPT_TRY(ParseJson(KOPT_TRY(ReadFile(path)), path));
  std::unique_ptr<KernelRuntime> gpu;
  if (!offline) gpu = KOPT_TRY(CudaRuntime::Create());
  int differing = 0, exact = 0, without_twin = 0;
  int64_t elements = 0, equal = 0;
  for (const Json& json : jobs) {
    const GpuJob job = KOPT_TRY(ReadJob(json, folder));
    if (offline) gpu = std::make_unique<ShadowRuntime>();
    Pair pair(*gpu, job);
    Status ready = pair.Prepare();
    bool differs = !ready;
    if (!ready) fmt::print("FAILED   {} {}\n", job.name, ready.error().ToString());
    exact += job.exact;
    without_twin += !job.twin;
    for (const DataSet& data : kData) {
      if (!ready) break;
      auto found = pair.Run(data);
      if (!found) {
        fmt::print("FAILED   {} {}: {}\n", job.name, ToString(data.family),
                   found.error().ToString());
        differs = true;
        break;
      }
      elements += found->elements;
      equal += found->equal;
      fmt::print("{:<8} {:<70} {:<8} {:>9} elements {:>9} equal  z {:.3g}, GPU {:.3g}{}\n",
                 found->differences.empty() ? "ok" : "DIFFERS", job.name.substr(0, 70),
                 ToString(data.family), found->elements, found->equal, found->max_z,
                 found->own_max_z, job.exact ? "  exact" : "");
      for (const std::string& line : found->differences) fmt::print("         {}\n", line);
      differs |= !found->differences.empty();
    }
    differing += differs;
    std::fflush(stdout);
  }
  fmt::print(
      "{} of {} jobs the same, {} of them with exact operations alone, {} without a twin; {} of "
      "{} elements bit for bit\n",
      jobs.size() - static_cast<size_t>(differing), jobs.size(), exact, without_twin, equal,
      elements);
  return differing;
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  using namespace kernelopt;
  const bool offline = argc > 1 && std::string_view(argv[1]) == "--offline";
  const std::string folder = argc > 1 + offline ? argv[1 + offline] : "build/shadow-jobs";
  if (!std::filesystem::exists(folder + "/jobs.json")) {
    fmt::print(stderr, "{} has no jobs.json; make it with tests/shadow/gpu_jobs.py\n", folder);
    return 2;
  }
  auto differing = CompareAll(folder, offline);
  if (!differing) {
    fmt::print("{}\n", differing.error().ToString());
    return static_cast<int>(differing.error().kind);
  }
  return *differing == 0 ? 0 : 1;
}
