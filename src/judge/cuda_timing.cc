// The part of CudaRuntime that measures time.
#include <algorithm>

#include "judge/cuda_runtime.h"

namespace kernelopt {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

}  // namespace

Status CudaRuntime::FlushL2() {
  return Check(
      driver_.MemsetD32Async(flush_.pointer, 0, static_cast<size_t>(flush_.bytes / 4), stream_),
      "flushing the L2 cache");
}

Status CudaRuntime::Touch(std::span<const Region> regions) {
  for (const Region& region : regions) {
    // Pairs of 16 bytes, from the first aligned one.
    const DevicePointer start = (region.pointer + 15) & ~DevicePointer{15};
    const int64_t bytes = region.bytes - static_cast<int64_t>(start - region.pointer);
    if (bytes < 16) continue;
    KOPT_CHECK_OK(Own(touch_, BlocksFor(bytes / 16), start, bytes / 16, partials_.pointer));
  }
  return {};
}

template <typename F>
Result<cuda::GraphExec> CudaRuntime::Record(F launches) {
  constexpr int kThreadLocal = 1;
  KOPT_CHECK_OK(Check(driver_.StreamBeginCapture(stream_, kThreadLocal), "recording a graph"));
  const Status recorded = launches();
  cuda::Graph graph = nullptr;
  Status status = Check(driver_.StreamEndCapture(stream_, &graph), "recording a graph");
  if (!recorded) status = recorded;
  cuda::GraphExec exec = nullptr;
  if (status) status = Check(driver_.GraphInstantiate(&exec, graph, 0), "making a graph");
  if (graph != nullptr) driver_.GraphDestroy(graph);
  if (!status) return std::unexpected(std::move(status).error());
  return exec;
}

Result<int> CudaRuntime::MakeGraph(std::span<const LaunchRequest> launches) {
  graphs_[next_handle_] = KOPT_TRY(Record([&]() -> Status {
    for (const LaunchRequest& launch : launches) KOPT_CHECK_OK(Launch(launch));
    return {};
  }));
  return next_handle_++;
}

void CudaRuntime::FreeGraph(int graph) {
  auto it = graphs_.find(graph);
  if (it == graphs_.end()) return;
  driver_.GraphExecDestroy(it->second);
  graphs_.erase(it);
}

Result<double> CudaRuntime::TimeExec(cuda::GraphExec graph) {
  KOPT_CHECK_OK(Check(driver_.EventRecord(start_, stream_), "recording an event"));
  KOPT_CHECK_OK(Check(driver_.GraphLaunch(graph, stream_), "starting a graph"));
  KOPT_CHECK_OK(Check(driver_.EventRecord(end_, stream_), "recording an event"));
  KOPT_CHECK_OK(Check(driver_.EventSynchronize(end_), "running a graph"));
  float ms = 0;
  KOPT_CHECK_OK(Check(driver_.EventElapsedTime(&ms, start_, end_), "reading the time"));
  return 1000.0 * static_cast<double>(ms);
}

Result<double> CudaRuntime::TimeGraph(int graph) {
  return TimeExec(graphs_.at(graph));
}

template <typename F>
Result<double> CudaRuntime::Fastest(int times, F launch) {
  constexpr int kStarts = 10;
  const cuda::GraphExec graph = KOPT_TRY(Record([&]() -> Status {
    for (int i = 0; i < times; ++i) KOPT_CHECK_OK(launch());
    return {};
  }));
  double fastest = 1e30;
  Status status;
  for (int i = 0; i < kStarts && status; ++i) {
    auto us = TimeExec(graph);
    if (us) {
      fastest = std::min(fastest, *us);
    } else {
      status = std::unexpected(std::move(us).error());
    }
  }
  driver_.GraphExecDestroy(graph);
  if (!status) return std::unexpected(std::move(status).error());
  return fastest / times;
}

Result<DeviceSpeeds> CudaRuntime::MeasureSpeeds() {
  const auto copy_gb_s = [&](int64_t bytes, int times) -> Result<double> {
    Buffer from;
    Buffer to;
    Status status = Grow(from, bytes);
    if (status) status = Grow(to, bytes);
    // Real data: zeros can be faster than anything a model copies.
    KoptDraw draw{};
    draw.key = KoptKey(0, 0, KOPT_NORMAL);
    draw.count = bytes / 4;
    draw.dtype = KOPT_F32;
    draw.family = KOPT_NORMAL;
    if (status) status = Generate(from.pointer, draw);
    // Which way of copying is the fastest differs between GPUs and sizes.
    const int64_t pairs = bytes / 16;
    const auto full_grid = static_cast<unsigned>(pairs / (4 * 256));
    Result<double> least = 1e30;
    for (int way = 0; way < 3 && status; ++way) {
      auto us = Fastest(times, [&] {
        if (way == 0) return CopyOnDevice(to.pointer, from.pointer, bytes);
        return Own(copy_, way == 1 ? BlocksFor(pairs / 4) : full_grid, to.pointer, from.pointer,
                   pairs);
      });
      if (us) {
        least = std::min(*least, *us);
      } else {
        status = std::unexpected(std::move(us).error());
      }
    }
    if (!status) least = std::unexpected(std::move(status).error());
    for (const Buffer& buffer : {from, to}) {
      if (buffer.pointer != 0) driver_.MemFree(buffer.pointer);
    }
    return 2.0 * static_cast<double>(bytes) / (KOPT_TRY(std::move(least)) * 1e3);
  };
  DeviceSpeeds speeds;
  const int64_t large = std::min<int64_t>(1024 * kMiB, KOPT_TRY(FreeMemory()) / 4 / kMiB * kMiB);
  speeds.dram_gb_s = KOPT_TRY(copy_gb_s(std::max(large, 64 * kMiB), 1));
  // How much of a cache in two halves one copy can use differs between GPUs.
  for (int64_t share : {16, 8, 4}) {
    const int64_t bytes = std::max(facts_.l2_bytes / share / kMiB * kMiB, kMiB);
    speeds.l2_gb_s = std::max(speeds.l2_gb_s, KOPT_TRY(copy_gb_s(bytes, 20)));
  }
  speeds.empty_kernel_us = KOPT_TRY(Fastest(100, [&] { return Own(empty_, 1); }));
  return speeds;
}

}  // namespace kernelopt
