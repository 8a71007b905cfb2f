#include "device/host_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/data.h"
#include "device/site_memory.h"

namespace kernelopt {
namespace {

template <typename T = void>
T* At(DevicePointer pointer) {
  return reinterpret_cast<T*>(pointer);
}

std::unexpected<Error> Sick() {
  return Fail(ErrorKind::kEnvironment, "sick_device", "a kernel made an illegal access");
}

}  // namespace

void HostRuntime::Register(const std::string& entry, Kernel kernel, double microseconds) {
  registry_[entry] = {std::move(kernel), microseconds};
}

Result<DeviceFacts> HostRuntime::Facts() {
  DeviceFacts facts;
  facts.name = "host";
  facts.sm_count = 1;
  facts.l2_bytes = 1 << 20;
  facts.memory_bytes = memory_bytes_;
  return facts;
}

Result<Allocation> HostRuntime::Allocate(int64_t bytes, Placement placement) {
  const int64_t before = placement == Placement::kFlushStart ? 0 : kCanaryBytes;
  const int64_t after = placement == Placement::kFlushEnd ? 0 : kCanaryBytes;
  const int64_t total = before + bytes + after;
  if (total > memory_bytes_ - allocated_) {
    return Fail(
        ErrorKind::kEnvironment, "out_of_memory",
        fmt::format("{} bytes were asked for, {} are free", total, memory_bytes_ - allocated_));
  }
  auto block = std::make_unique<std::vector<char>>(static_cast<size_t>(total) + 256);
  const uint64_t start = (reinterpret_cast<uint64_t>(block->data()) + 255) & ~uint64_t{255};
  Allocation allocation;
  allocation.before = {start, before};
  allocation.storage = {start + static_cast<uint64_t>(before), bytes};
  allocation.after = {allocation.storage.pointer + static_cast<uint64_t>(bytes), after};
  allocation.handle = start;
  blocks_[start] = std::move(block);
  allocated_ += total;
  return allocation;
}

void HostRuntime::Free(const Allocation& allocation) {
  if (blocks_.erase(allocation.handle) == 0) return;
  allocated_ -= allocation.before.bytes + allocation.storage.bytes + allocation.after.bytes;
}

Status HostRuntime::CopyToDevice(DevicePointer to, const void* from, int64_t bytes) {
  std::memcpy(At(to), from, static_cast<size_t>(bytes));
  return {};
}
Status HostRuntime::CopyToHost(void* to, DevicePointer from, int64_t bytes) {
  std::memcpy(to, At(from), static_cast<size_t>(bytes));
  return {};
}
Status HostRuntime::CopyOnDevice(DevicePointer to, DevicePointer from, int64_t bytes) {
  std::memmove(At(to), At(from), static_cast<size_t>(bytes));
  return {};
}

Result<int> HostRuntime::Load(const Program& program) {
  auto it = registry_.find(program.record.entry);
  if (it == registry_.end()) {
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("no kernel '{}' is registered", program.record.entry));
  }
  loaded_[next_handle_] = {&it->second, program.grid};
  return next_handle_++;
}

void HostRuntime::Unload(int kernel) {
  loaded_.erase(kernel);
}

Status HostRuntime::Launch(const LaunchRequest& request) {
  if (sick_) return Sick();
  const Loaded& loaded = loaded_.at(request.kernel);
  if (!loaded.registered->kernel(HostLaunch(request.arguments, loaded.grid))) sick_ = true;
  return {};
}

Status HostRuntime::Synchronize() {
  if (sick_) return Sick();
  return {};
}

Status HostRuntime::FillBytes(Region region, uint8_t value) {
  std::memset(At(region.pointer), value, static_cast<size_t>(region.bytes));
  return {};
}

Status HostRuntime::Generate(DevicePointer to, const KoptDraw& draw) {
  for (int64_t i = 0; i < draw.count; ++i) {
    StoreElement(At(to), i, static_cast<DType>(draw.dtype), DrawElement(draw, i));
  }
  return {};
}

Status HostRuntime::Poison(DevicePointer to, int64_t count, DType dtype, int which) {
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(At(to), i, dtype,
                 KoptPoison(static_cast<uint64_t>(i), static_cast<int>(dtype), which));
  }
  return {};
}

Status HostRuntime::Widen(DevicePointer to, DevicePointer from, int64_t count, DType dtype) {
  double* values = At<double>(to);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = KoptDecode(LoadElement(At(from), i, dtype), static_cast<int>(dtype));
  }
  return {};
}

Status HostRuntime::AddConditioning(DevicePointer conditioning, DevicePointer perturbed,
                                    DevicePointer reference, int64_t count, DType dtype,
                                    int steps) {
  float* sums = At<float>(conditioning);
  for (int64_t i = 0; i < count; ++i) {
    sums[i] =
        KoptAddConditioning(sums[i], LoadElement(At(perturbed), i, dtype),
                            LoadElement(At(reference), i, dtype), static_cast<int>(dtype), steps);
  }
  return {};
}

Result<std::vector<KoptStats>> HostRuntime::Compare(std::span<const CompareRequest> requests) {
  std::vector<KoptStats> all;
  for (const CompareRequest& request : requests) {
    KoptStats& stats = all.emplace_back();
    KoptClearStats(&stats);
    const double* twin = At<double>(request.twin);
    const float* sums = At<float>(request.conditioning);
    for (int64_t i = 0; i < request.count; ++i) {
      KoptCompareElement(&stats, LoadElement(At(request.candidate), i, request.dtype),
                         LoadElement(At(request.reference), i, request.dtype), twin != nullptr,
                         twin != nullptr ? twin[i] : 0, sums != nullptr ? sums[i] : 0,
                         request.perturbations, i, static_cast<int>(request.dtype), request.poison);
    }
  }
  return all;
}

Result<std::vector<uint64_t>> HostRuntime::Checksums(std::span<const Region> regions) {
  std::vector<uint64_t> sums;
  for (const Region& region : regions) {
    uint64_t sum = 0;
    for (int64_t at = 0; at < region.bytes; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, At<char>(region.pointer) + at,
                  static_cast<size_t>(std::min<int64_t>(8, region.bytes - at)));
      sum += KoptChecksumWord(word, static_cast<uint64_t>(at / 8));
    }
    sums.push_back(sum);
  }
  return sums;
}

Status HostRuntime::FlushL2() {
  timing_log_.push_back("flush");
  return {};
}

Status HostRuntime::Touch(std::span<const Region> regions) {
  for (const Region& region : regions) timing_log_.push_back(fmt::format("touch {}", region.bytes));
  return {};
}

Result<int> HostRuntime::MakeGraph(std::span<const LaunchRequest> launches) {
  graphs_[next_handle_] = {launches.begin(), launches.end()};
  return next_handle_++;
}

void HostRuntime::FreeGraph(int graph) {
  graphs_.erase(graph);
}

Result<double> HostRuntime::TimeGraph(int graph) {
  double total = 0;
  const std::vector<LaunchRequest>& launches = graphs_.at(graph);
  timing_log_.push_back(fmt::format("graph {}", launches.size()));
  for (const LaunchRequest& launch : launches) {
    KOPT_CHECK_OK(Launch(launch));
    total += loaded_.at(launch.kernel).registered->microseconds;
  }
  KOPT_CHECK_OK(Synchronize());
  return total;
}

}  // namespace kernelopt
