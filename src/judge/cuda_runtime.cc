#include "judge/cuda_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "device/site_memory.h"
#include "judge/embedded_ptx.h"

namespace kernelopt {
namespace {

constexpr unsigned kThreads = 256;
/// Dynamic shared memory that a kernel gets without being asked.
constexpr int64_t kDefaultSharedBytes = 48 * 1024;
/// Left free for the driver: local memory, code, graphs.
constexpr int64_t kMemoryReserve = int64_t{512} << 20;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::string MigProfile(const std::string& name) {
  const size_t at = name.find("MIG ");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

std::string UuidText(const cuda::Uuid& uuid, bool mig) {
  std::string text = mig ? "MIG" : "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

std::unexpected<Error> BadRecord(const Program& program, std::string message) {
  return Fail(ErrorKind::kUsage, "job_error", std::move(message), program.record.entry);
}

}  // namespace

Result<std::unique_ptr<CudaRuntime>> CudaRuntime::Create() {
  const cuda::Driver* driver = KOPT_TRY(cuda::LoadDriver());
  std::unique_ptr<CudaRuntime> runtime(new CudaRuntime(*driver));
  KOPT_CHECK_OK(runtime->Open());
  return runtime;
}

CudaRuntime::~CudaRuntime() {
  for (auto& [handle, graph] : graphs_) driver_.GraphExecDestroy(graph);
  for (auto& [handle, kernel] : kernels_) DropKernel(kernel);
  for (auto& [handle, block] : blocks_) DropBlock(block);
  for (Buffer* buffer : {&partials_, &flush_}) {
    if (buffer->pointer != 0) driver_.MemFree(buffer->pointer);
  }
  if (own_module_ != nullptr) driver_.ModuleUnload(own_module_);
  if (start_ != nullptr) driver_.EventDestroy(start_);
  if (end_ != nullptr) driver_.EventDestroy(end_);
  if (stream_ != nullptr) driver_.StreamDestroy(stream_);
  if (retained_) driver_.PrimaryCtxRelease(device_);
}

Status CudaRuntime::Check(cuda::Code code, std::string_view doing) const {
  if (code == cuda::kSuccess) return {};
  const std::string what = fmt::format("{}: {}", doing, cuda::Describe(driver_, code));
  if (code == cuda::kOutOfMemory) {
    return Fail(ErrorKind::kEnvironment, "out_of_memory",
                what + "; close other programs on this GPU or take a smaller input");
  }
  if (cuda::IsSick(code)) return Fail(ErrorKind::kEnvironment, "sick_device", what);
  return Fail(ErrorKind::kUsage, "job_error", what);
}

Status CudaRuntime::Open() {
  const auto no_gpu = [&](cuda::Code code, std::string_view doing) -> Status {
    Status status = Check(code, doing);
    if (!status && status.error().code == "job_error") {
      return Fail(ErrorKind::kEnvironment, "no_gpu", std::move(status).error().message);
    }
    return status;
  };
  KOPT_CHECK_OK(no_gpu(driver_.Init(0), "starting the CUDA driver"));
  KOPT_CHECK_OK(no_gpu(driver_.DeviceGet(&device_, 0), "finding a GPU"));
  cuda::Context context = nullptr;
  KOPT_CHECK_OK(no_gpu(driver_.PrimaryCtxRetain(&context, device_), "opening the GPU"));
  retained_ = true;
  KOPT_CHECK_OK(Check(driver_.CtxSetCurrent(context), "opening the GPU"));
  KOPT_CHECK_OK(ReadFacts());
  KOPT_CHECK_OK(Check(driver_.StreamCreate(&stream_, 1), "creating a stream"));
  KOPT_CHECK_OK(Check(driver_.EventCreate(&start_, 0), "creating an event"));
  KOPT_CHECK_OK(Check(driver_.EventCreate(&end_, 0), "creating an event"));
  KOPT_CHECK_OK(Check(driver_.ModuleLoadData(&own_module_, kJudgePtx), "loading our kernels"));
  for (const auto& [function, name] : {std::pair{&generate_, "kopt_generate"},
                                       {&poison_, "kopt_poison"},
                                       {&widen_, "kopt_widen"},
                                       {&condition_, "kopt_condition"},
                                       {&compare_, "kopt_compare"},
                                       {&checksum_, "kopt_checksum"},
                                       {&touch_, "kopt_touch"},
                                       {&copy_, "kopt_copy"},
                                       {&empty_, "kopt_empty"}}) {
    KOPT_CHECK_OK(Check(driver_.ModuleGetFunction(function, own_module_, name), name));
  }
  KOPT_CHECK_OK(Grow(partials_, 1 << 20));
  return Grow(flush_, std::max<int64_t>(2 * facts_.l2_bytes, 16 << 20));
}

Status CudaRuntime::ReadFacts() {
  char name[256] = {};
  KOPT_CHECK_OK(Check(driver_.DeviceGetName(name, sizeof name - 1, device_), "naming the GPU"));
  facts_.name = name;
  facts_.mig = MigProfile(facts_.name);
  cuda::Uuid uuid{};
  KOPT_CHECK_OK(Check(driver_.DeviceGetUuid(&uuid, device_), "naming the GPU"));
  facts_.uuid = UuidText(uuid, !facts_.mig.empty());
  int version = 0;
  KOPT_CHECK_OK(Check(driver_.DriverGetVersion(&version), "reading the driver's version"));
  facts_.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  const auto attribute = [&](int id) -> Result<int> {
    int value = 0;
    KOPT_CHECK_OK(Check(driver_.DeviceGetAttribute(&value, id, device_), "reading an attribute"));
    return value;
  };
  facts_.compute_capability = 10 * KOPT_TRY(attribute(cuda::kComputeCapabilityMajor)) +
                              KOPT_TRY(attribute(cuda::kComputeCapabilityMinor));
  facts_.sm_count = KOPT_TRY(attribute(cuda::kMultiprocessorCount));
  facts_.l2_bytes = KOPT_TRY(attribute(cuda::kL2CacheSize));
  facts_.shared_bytes_per_block = KOPT_TRY(attribute(cuda::kMaxSharedPerBlockOptin));
  size_t memory = 0;
  KOPT_CHECK_OK(Check(driver_.DeviceTotalMem(&memory, device_), "reading the memory's size"));
  facts_.memory_bytes = static_cast<int64_t>(memory);
  return {};
}

Status CudaRuntime::Grow(Buffer& buffer, int64_t bytes) {
  if (buffer.bytes >= bytes) return {};
  if (buffer.pointer != 0) KOPT_CHECK_OK(Check(driver_.MemFree(buffer.pointer), "freeing memory"));
  buffer = {};
  KOPT_CHECK_OK(Check(driver_.MemAlloc(&buffer.pointer, static_cast<size_t>(bytes)),
                      fmt::format("allocating {} bytes", bytes)));
  buffer.bytes = bytes;
  return {};
}

Result<int64_t> CudaRuntime::FreeMemory() {
  size_t available = 0;
  size_t total = 0;
  KOPT_CHECK_OK(Check(driver_.MemGetInfo(&available, &total), "reading the free memory"));
  return std::max<int64_t>(0, static_cast<int64_t>(available) - kMemoryReserve);
}

Result<Allocation> CudaRuntime::Allocate(int64_t bytes, Placement placement) {
  if (bytes > KOPT_TRY(FreeMemory())) {
    return Fail(ErrorKind::kEnvironment, "out_of_memory",
                fmt::format("a storage of {} bytes does not fit into the GPU's free memory; close "
                            "other programs on this GPU or take a smaller input",
                            bytes));
  }
  if (placement != Placement::kMiddle) return AllocateGuarded(bytes, placement);
  Block block;
  KOPT_CHECK_OK(
      Check(driver_.MemAlloc(&block.pointer, static_cast<size_t>(bytes + 2 * kCanaryBytes)),
            fmt::format("allocating {} bytes", bytes)));
  Allocation allocation;
  allocation.handle = static_cast<uint64_t>(next_handle_++);
  allocation.before = {block.pointer, kCanaryBytes};
  allocation.storage = {block.pointer + kCanaryBytes, bytes};
  allocation.after = {allocation.storage.pointer + static_cast<uint64_t>(bytes), kCanaryBytes};
  blocks_[allocation.handle] = block;
  return allocation;
}

Result<Allocation> CudaRuntime::AllocateGuarded(int64_t bytes, Placement placement) {
  cuda::MemoryProperties properties;
  properties.location_id = device_;
  size_t page = 0;
  KOPT_CHECK_OK(
      Check(driver_.MemGetAllocationGranularity(&page, &properties, 0), "reading the page size"));
  const int64_t aligned = RoundUp(bytes, 16);
  Block block;
  block.mapped =
      static_cast<size_t>(RoundUp(std::max<int64_t>(aligned, 1), static_cast<int64_t>(page)));
  const std::string doing = fmt::format("mapping {} bytes", bytes);
  cuda::Pointer base = 0;
  KOPT_CHECK_OK(Check(driver_.MemAddressReserve(&base, block.mapped + 2 * page, 0, 0, 0), doing));
  block.pointer = base;
  block.reserved = block.mapped + 2 * page;
  Status status = Check(driver_.MemCreate(&block.memory, block.mapped, &properties, 0), doing);
  if (!status) {
    driver_.MemAddressFree(base, block.reserved);
    return std::unexpected(std::move(status).error());
  }
  const uint64_t handle = static_cast<uint64_t>(next_handle_++);
  blocks_[handle] = block;
  const cuda::Pointer start = base + page;
  cuda::MemoryAccess access;
  access.location_id = device_;
  KOPT_CHECK_OK(Check(driver_.MemMap(start, block.mapped, 0, block.memory, 0), doing));
  KOPT_CHECK_OK(Check(driver_.MemSetAccess(start, block.mapped, &access, 1), doing));
  Allocation allocation;
  allocation.handle = handle;
  const cuda::Pointer end = start + block.mapped;
  const cuda::Pointer storage =
      placement == Placement::kFlushEnd ? end - static_cast<uint64_t>(aligned) : start;
  allocation.storage = {storage, bytes};
  const int64_t before = std::min<int64_t>(kCanaryBytes, static_cast<int64_t>(storage - start));
  allocation.before = {storage - static_cast<uint64_t>(before), before};
  const cuda::Pointer behind = storage + static_cast<uint64_t>(bytes);
  allocation.after = {behind, std::min<int64_t>(kCanaryBytes, static_cast<int64_t>(end - behind))};
  return allocation;
}

void CudaRuntime::DropBlock(Block& block) {
  if (block.reserved == 0) {
    driver_.MemFree(block.pointer);
    return;
  }
  const size_t page = (block.reserved - block.mapped) / 2;
  driver_.MemUnmap(block.pointer + page, block.mapped);
  driver_.MemRelease(block.memory);
  driver_.MemAddressFree(block.pointer, block.reserved);
}

void CudaRuntime::Free(const Allocation& allocation) {
  auto it = blocks_.find(allocation.handle);
  if (it == blocks_.end()) return;
  driver_.StreamSynchronize(stream_);
  DropBlock(it->second);
  blocks_.erase(it);
}

Status CudaRuntime::CopyToDevice(DevicePointer to, const void* from, int64_t bytes) {
  KOPT_CHECK_OK(Synchronize());
  return Check(driver_.MemcpyHtoD(to, from, static_cast<size_t>(bytes)), "copying to the GPU");
}

Status CudaRuntime::CopyToHost(void* to, DevicePointer from, int64_t bytes) {
  KOPT_CHECK_OK(Synchronize());
  return Check(driver_.MemcpyDtoH(to, from, static_cast<size_t>(bytes)), "copying from the GPU");
}

Status CudaRuntime::CopyOnDevice(DevicePointer to, DevicePointer from, int64_t bytes) {
  return Check(driver_.MemcpyDtoDAsync(to, from, static_cast<size_t>(bytes), stream_),
               "copying on the GPU");
}

Result<int> CudaRuntime::Load(const Program& program) {
  auto binary = ReadFile(program.cubin_path);
  if (!binary) return BadRecord(program, binary.error().ToString());
  Kernel kernel;
  kernel.program = program;
  // ReadFile's string ends in a zero byte, which a PTX text needs.
  KOPT_CHECK_OK(Check(driver_.ModuleLoadData(&kernel.module, binary->c_str()),
                      "loading " + program.cubin_path));
  Status status = PrepareKernel(kernel);
  if (!status) {
    DropKernel(kernel);
    return std::unexpected(std::move(status).error());
  }
  kernels_[next_handle_] = std::move(kernel);
  return next_handle_++;
}

Status CudaRuntime::PrepareKernel(Kernel& kernel) {
  const Program& program = kernel.program;
  const LaunchRecord& record = program.record;
  KOPT_CHECK_OK(
      Check(driver_.ModuleGetFunction(&kernel.function, kernel.module, record.entry.c_str()),
            fmt::format("finding '{}' in {}", record.entry, program.cubin_path)));
  int64_t ctas = record.num_ctas;
  for (int64_t extent : program.grid) {
    if (extent < 1 || extent > 0x7FFFFFFF) {
      return BadRecord(program, fmt::format("a grid of {} programs can't be launched", extent));
    }
    ctas *= extent;
  }
  int most_threads = 0;
  KOPT_CHECK_OK(
      Check(driver_.FuncGetAttribute(&most_threads, cuda::kMaxThreadsPerBlock, kernel.function),
            "reading the kernel's limits"));
  if (record.threads < 1 || record.threads > most_threads || record.num_ctas < 1) {
    return BadRecord(program, fmt::format("{} threads and {} CTAs a cluster, wanted 1 to {} and at "
                                          "least 1",
                                          record.threads, record.num_ctas, most_threads));
  }
  int fixed_shared = 0;
  KOPT_CHECK_OK(
      Check(driver_.FuncGetAttribute(&fixed_shared, cuda::kSharedSizeBytes, kernel.function),
            "reading the kernel's limits"));
  if (record.shared_bytes < 0 ||
      record.shared_bytes + fixed_shared > facts_.shared_bytes_per_block) {
    return BadRecord(
        program, fmt::format("{} bytes of shared memory, wanted at most {}",
                             record.shared_bytes + fixed_shared, facts_.shared_bytes_per_block));
  }
  if (record.shared_bytes + fixed_shared > kDefaultSharedBytes) {
    KOPT_CHECK_OK(Check(driver_.FuncSetAttribute(kernel.function, cuda::kMaxDynamicSharedSizeBytes,
                                                 static_cast<int>(record.shared_bytes)),
                        "asking for shared memory"));
  }
  if (record.num_ctas > 8) {
    KOPT_CHECK_OK(
        Check(driver_.FuncSetAttribute(kernel.function, cuda::kNonPortableClusterSizeAllowed, 1),
              "asking for a large cluster"));
  }
  for (const LaunchParameter& parameter : record.parameters) {
    if (parameter.kind != LaunchParameter::Kind::kScratch) continue;
    cuda::Pointer pointer = 0;
    if (parameter.scratch_bytes > 0) {
      if (parameter.scratch_alignment > 256) {
        return BadRecord(program, fmt::format("scratch aligned to {} bytes, wanted at most 256",
                                              parameter.scratch_alignment));
      }
      const size_t bytes = static_cast<size_t>(ctas * parameter.scratch_bytes);
      KOPT_CHECK_OK(Check(driver_.MemAlloc(&pointer, bytes), "allocating scratch"));
      kernel.scratch.push_back(pointer);
      KOPT_CHECK_OK(Check(driver_.MemsetD8Async(pointer, 0, bytes, stream_), "clearing scratch"));
    } else {
      kernel.scratch.push_back(0);
    }
  }
  return {};
}

void CudaRuntime::DropKernel(Kernel& kernel) {
  driver_.StreamSynchronize(stream_);
  for (cuda::Pointer pointer : kernel.scratch) {
    if (pointer != 0) driver_.MemFree(pointer);
  }
  if (kernel.module != nullptr) driver_.ModuleUnload(kernel.module);
}

void CudaRuntime::Unload(int kernel) {
  auto it = kernels_.find(kernel);
  if (it == kernels_.end()) return;
  DropKernel(it->second);
  kernels_.erase(it);
}

Status CudaRuntime::Launch(const LaunchRequest& request) {
  return LaunchLoaded(kernels_.at(request.kernel), request.arguments);
}

Status CudaRuntime::LaunchLoaded(const Kernel& kernel, const std::vector<KernelValue>& arguments) {
  const Program& program = kernel.program;
  const LaunchRecord& record = program.record;
  std::vector<uint64_t> values(record.parameters.size());
  std::vector<void*> pointers;
  size_t scratch = 0;
  for (size_t i = 0; i < record.parameters.size(); ++i) {
    const LaunchParameter& parameter = record.parameters[i];
    pointers.push_back(&values[i]);
    if (parameter.kind == LaunchParameter::Kind::kScratch) {
      values[i] = kernel.scratch[scratch++];
      continue;
    }
    if (parameter.argument < 0 || parameter.argument >= static_cast<int>(arguments.size())) {
      return BadRecord(program, fmt::format("parameter {} is argument {} of {}", i,
                                            parameter.argument, arguments.size()));
    }
    const KernelValue& value = arguments[static_cast<size_t>(parameter.argument)];
    const bool is_pointer = value.kind == ArgumentSpec::Kind::kStorage;
    switch (parameter.kind) {
      case LaunchParameter::Kind::kPointer:
        if (is_pointer) {
          values[i] = value.pointer;
          continue;
        }
        // None is passed as 0.
        if (value.kind == ArgumentSpec::Kind::kInt && value.int_value == 0) continue;
        break;
      case LaunchParameter::Kind::kInt:
        if (value.kind == ArgumentSpec::Kind::kInt && parameter.size <= 8) {
          values[i] = static_cast<uint64_t>(value.int_value);
          continue;
        }
        break;
      default: {
        if (is_pointer || (parameter.size != 4 && parameter.size != 8)) break;
        const double number = value.kind == ArgumentSpec::Kind::kInt
                                  ? static_cast<double>(value.int_value)
                                  : value.float_value;
        const float narrow = static_cast<float>(number);
        if (parameter.size == 4) {
          std::memcpy(&values[i], &narrow, 4);
        } else {
          std::memcpy(&values[i], &number, 8);
        }
        continue;
      }
    }
    return BadRecord(program, fmt::format("parameter {} of {} bytes can't hold argument {}", i,
                                          parameter.size, parameter.argument));
  }
  cuda::LaunchConfig config;
  for (size_t d = 0; d < 3; ++d) config.grid[d] = static_cast<unsigned>(program.grid[d]);
  config.block[0] = static_cast<unsigned>(record.threads);
  config.shared_bytes = static_cast<unsigned>(record.shared_bytes);
  config.stream = stream_;
  cuda::LaunchAttribute attributes[2];
  config.attributes = attributes;
  if (record.num_ctas > 1) {
    config.grid[0] *= static_cast<unsigned>(record.num_ctas);
    cuda::LaunchAttribute& cluster = attributes[config.attribute_count++];
    cluster.id = cuda::kAttributeCluster;
    cluster.cluster[0] = static_cast<unsigned>(record.num_ctas);
    cluster.cluster[1] = cluster.cluster[2] = 1;
  }
  if (record.cooperative) {
    cuda::LaunchAttribute& cooperative = attributes[config.attribute_count++];
    cooperative.id = cuda::kAttributeCooperative;
    cooperative.number = 1;
  }
  return Check(driver_.LaunchKernelEx(&config, kernel.function, pointers.data(), nullptr),
               fmt::format("launching '{}'", record.entry));
}

Status CudaRuntime::Synchronize() {
  return Check(driver_.StreamSynchronize(stream_), "running a kernel");
}

unsigned CudaRuntime::BlocksFor(int64_t items) const {
  const int64_t wanted = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, int64_t{8} * facts_.sm_count));
}

Status CudaRuntime::LaunchOwn(cuda::Function function, unsigned blocks, void** arguments) {
  cuda::LaunchConfig config;
  config.grid[0] = blocks;
  config.block[0] = kThreads;
  config.stream = stream_;
  return Check(driver_.LaunchKernelEx(&config, function, arguments, nullptr),
               "launching a kernel of the judge");
}

Status CudaRuntime::FillBytes(Region region, uint8_t value) {
  return Check(
      driver_.MemsetD8Async(region.pointer, value, static_cast<size_t>(region.bytes), stream_),
      "filling memory");
}

Status CudaRuntime::Generate(DevicePointer to, const KoptDraw& draw) {
  return Own(generate_, BlocksFor(draw.count), to, draw);
}

Status CudaRuntime::Poison(DevicePointer to, int64_t count, DType dtype, int which) {
  return Own(poison_, BlocksFor(count), to, count, static_cast<int>(dtype), which);
}

Status CudaRuntime::Widen(DevicePointer to, DevicePointer from, int64_t count, DType dtype) {
  return Own(widen_, BlocksFor(count), to, from, count, static_cast<int>(dtype));
}

Status CudaRuntime::AddConditioning(DevicePointer conditioning, DevicePointer perturbed,
                                    DevicePointer reference, int64_t count, DType dtype,
                                    int steps) {
  return Own(condition_, BlocksFor(count), conditioning, perturbed, reference, count,
             static_cast<int>(dtype), steps);
}

Result<std::vector<KoptStats>> CudaRuntime::Compare(std::span<const CompareRequest> requests) {
  std::vector<unsigned> blocks;
  size_t total = 0;
  for (const CompareRequest& request : requests) {
    blocks.push_back(BlocksFor(request.count));
    total += blocks.back();
  }
  KOPT_CHECK_OK(Grow(partials_, static_cast<int64_t>(total * sizeof(KoptStats))));
  DevicePointer at = partials_.pointer;
  for (size_t i = 0; i < requests.size(); ++i) {
    const CompareRequest& r = requests[i];
    KOPT_CHECK_OK(Own(compare_, blocks[i], r.candidate, r.reference, r.twin, r.conditioning,
                      r.count, static_cast<int>(r.dtype), r.perturbations, r.poison, at));
    at += blocks[i] * sizeof(KoptStats);
  }
  std::vector<KoptStats> partials(total);
  KOPT_CHECK_OK(CopyToHost(partials.data(), partials_.pointer,
                           static_cast<int64_t>(total * sizeof(KoptStats))));
  std::vector<KoptStats> all;
  size_t next = 0;
  for (unsigned count : blocks) {
    KoptStats& stats = all.emplace_back();
    KoptClearStats(&stats);
    for (unsigned k = 0; k < count; ++k) KoptMergeStats(&stats, &partials[next++]);
  }
  return all;
}

Result<std::vector<uint64_t>> CudaRuntime::Checksums(std::span<const Region> regions) {
  std::vector<unsigned> blocks;
  size_t total = 0;
  for (const Region& region : regions) {
    blocks.push_back(BlocksFor(region.bytes / 8));
    total += blocks.back();
  }
  KOPT_CHECK_OK(Grow(partials_, static_cast<int64_t>(total * 8)));
  DevicePointer at = partials_.pointer;
  for (size_t i = 0; i < regions.size(); ++i) {
    KOPT_CHECK_OK(Own(checksum_, blocks[i], regions[i].pointer, regions[i].bytes, at));
    at += blocks[i] * 8;
  }
  std::vector<uint64_t> partials(total);
  KOPT_CHECK_OK(CopyToHost(partials.data(), partials_.pointer, static_cast<int64_t>(total * 8)));
  std::vector<uint64_t> sums;
  size_t next = 0;
  for (unsigned count : blocks) {
    uint64_t sum = 0;
    for (unsigned k = 0; k < count; ++k) sum += partials[next++];
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace kernelopt
