#include "device/timer.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/site_memory.h"

namespace kernelopt {
namespace {

constexpr double kShortKernelUs = 20;
constexpr int kGraphLaunches = 20;
/// Share of the L2 cache that re-read storages may fill, and of the free
/// memory that copies may.
constexpr double kL2Share = 0.6;
constexpr double kMemoryShare = 0.7;

class Timer {
 public:
  Timer(KernelRuntime& runtime, const TimeJob& job) : runtime_(runtime), job_(job) {}
  ~Timer();
  Result<TimeResult> Run();

 private:
  Status CheckJob();
  Status LoadAll();
  /// Decides how many launches a sample has and makes the copies for them.
  Status MakeCopies();
  Status RecordAll();
  Result<double> Sample(size_t program);
  /// Fills the storages; all of them at first, later only the written ones.
  Status Refill();

  KernelRuntime& runtime_;
  const TimeJob& job_;
  TimeResult result_;
  std::vector<int> kernels_;  ///< -1: failed
  std::vector<int> graphs_;
  std::vector<std::unique_ptr<SiteMemory>> copies_;
};

Timer::~Timer() {
  for (int graph : graphs_) {
    if (graph >= 0) runtime_.FreeGraph(graph);
  }
  for (int kernel : kernels_) {
    if (kernel >= 0) runtime_.Unload(kernel);
  }
}

std::string ProgramName(size_t i) {
  return fmt::format("program {}", i);
}

/// Failures that leave the device usable count against the program alone.
bool ChargesProgram(const Error& error) {
  return error.code == "job_error";
}

Status Timer::CheckJob() {
  if (job_.programs.empty() || job_.rounds < 1) {
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("{} programs and {} rounds, wanted at least one of both",
                            job_.programs.size(), job_.rounds),
                job_.site.name);
  }
  for (int storage : job_.touched) {
    if (storage >= 0 && storage < static_cast<int>(job_.site.storages.size())) continue;
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("touched storage {}, wanted one of the site's {}", storage,
                            job_.site.storages.size()),
                job_.site.name);
  }
  return {};
}

Status Timer::Refill() {
  for (const auto& copy : copies_) KOPT_CHECK_OK(copy->Prepare(job_.data, 0));
  return {};
}

Status Timer::LoadAll() {
  result_.samples.resize(job_.programs.size());
  result_.failures.resize(job_.programs.size());
  copies_.push_back(KOPT_TRY(SiteMemory::Create(runtime_, job_.site, Placement::kMiddle)));
  for (size_t i = 0; i < job_.programs.size(); ++i) {
    KOPT_CHECK_OK(Refill());
    auto kernel = runtime_.Load(job_.programs[i]);
    kernels_.push_back(kernel ? *kernel : -1);
    Status status;
    if (!kernel) status = std::unexpected(std::move(kernel).error());
    if (status) status = runtime_.Launch({kernels_.back(), copies_[0]->Arguments()});
    if (status) status = runtime_.Synchronize();
    if (status) continue;
    Error error = std::move(status).error();
    error.where = ProgramName(i);
    if (i == 0 || !ChargesProgram(error)) return std::unexpected(std::move(error));
    if (kernels_.back() >= 0) runtime_.Unload(kernels_.back());
    kernels_.back() = -1;
    result_.failures[i] = error.code;
  }
  return {};
}

Status Timer::MakeCopies() {
  KOPT_CHECK_OK(Refill());
  const LaunchRequest launch = {kernels_[0], copies_[0]->Arguments()};
  const int graph = KOPT_TRY(runtime_.MakeGraph(std::span(&launch, 1)));
  double shortest = 1e30;
  for (int i = 0; i < 3; ++i) {
    auto us = runtime_.TimeGraph(graph);
    if (!us) {
      runtime_.FreeGraph(graph);
      return std::unexpected(std::move(us).error());
    }
    shortest = std::min(shortest, *us);
  }
  runtime_.FreeGraph(graph);
  if (shortest >= kShortKernelUs) return {};

  double limit = kGraphLaunches;
  if (job_.state == CacheState::kAsInModel && !job_.touched.empty()) {
    int64_t touched = 1;
    for (int storage : job_.touched) touched += copies_[0]->storage(storage).bytes;
    const int64_t l2_bytes = KOPT_TRY(runtime_.Facts()).l2_bytes;
    limit =
        std::min(limit, kL2Share * static_cast<double>(l2_bytes) / static_cast<double>(touched));
  }
  int64_t bytes = 0;
  for (const StorageSpec& spec : job_.site.storages) bytes += spec.bytes + 2 * kCanaryBytes;
  const int64_t free_bytes = KOPT_TRY(runtime_.FreeMemory());
  limit = std::min(limit, 1 + kMemoryShare * static_cast<double>(free_bytes) /
                                  static_cast<double>(std::max<int64_t>(bytes, 1)));
  while (static_cast<double>(copies_.size() + 1) <= limit) {
    copies_.push_back(KOPT_TRY(SiteMemory::Create(runtime_, job_.site, Placement::kMiddle)));
  }
  return Refill();
}

Status Timer::RecordAll() {
  for (int kernel : kernels_) {
    int graph = -1;
    if (kernel >= 0) {
      std::vector<LaunchRequest> launches;
      for (const auto& copy : copies_) launches.push_back({kernel, copy->Arguments()});
      graph = KOPT_TRY(runtime_.MakeGraph(launches));
    }
    graphs_.push_back(graph);
  }
  return {};
}

Result<double> Timer::Sample(size_t program) {
  KOPT_CHECK_OK(Refill());
  KOPT_CHECK_OK(runtime_.FlushL2());
  if (job_.state == CacheState::kAsInModel) {
    std::vector<Region> regions;
    for (const auto& copy : copies_) {
      for (int storage : job_.touched) regions.push_back(copy->storage(storage));
    }
    KOPT_CHECK_OK(runtime_.Touch(regions));
  }
  auto us = runtime_.TimeGraph(graphs_[program]);
  if (!us) {
    Error error = std::move(us).error();
    error.where = ProgramName(program);
    return std::unexpected(std::move(error));
  }
  return *us / static_cast<double>(copies_.size());
}

Result<TimeResult> Timer::Run() {
  KOPT_CHECK_OK(CheckJob());
  KOPT_CHECK_OK(LoadAll());
  KOPT_CHECK_OK(MakeCopies());
  KOPT_CHECK_OK(RecordAll());
  const size_t programs = kernels_.size();
  // The first start of a graph uploads it: not a sample.
  for (size_t i = 0; i < programs; ++i) {
    if (graphs_[i] >= 0) KOPT_TRY(Sample(i));
  }
  for (int round = 0; round < job_.rounds; ++round) {
    for (size_t k = 0; k < programs; ++k) {
      const size_t i = round % 2 == 0 ? k : programs - 1 - k;
      if (graphs_[i] >= 0) result_.samples[i].push_back(KOPT_TRY(Sample(i)));
    }
  }
  return std::move(result_);
}

}  // namespace

Result<TimeResult> RunTime(KernelRuntime& runtime, const TimeJob& job) {
  return Timer(runtime, job).Run();
}

}  // namespace kernelopt
