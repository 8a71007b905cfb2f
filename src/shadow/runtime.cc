#include "shadow/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/file.h"
#include "device/data.h"
#include "ttir/roles.h"

namespace kernelopt {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unexpected<Error> NoTime() {
  return Fail(ErrorKind::kEnvironment, "job_error",
              "the shadow device has no clock: timing needs a GPU");
}

/// Elements a storage that left_out() keeps.
constexpr size_t kMostLeftOut = 8;

/// Calls f(index) for the elements of a page that `written` names.
template <typename F>
void ForWritten(int64_t page, const std::array<uint64_t, kShadowPageElements / 64>& written, F f) {
  for (size_t word = 0; word < written.size(); ++word)
    for (uint64_t bits = written[word]; bits != 0; bits &= bits - 1)
      f(page * kShadowPageElements + static_cast<int64_t>(word) * 64 + __builtin_ctzll(bits));
}

}  // namespace

void ShadowRuntime::SetInstances(const std::string& ttir_path, const std::array<int64_t, 3>& grid,
                                 std::vector<ShadowInstance> instances) {
  plans_[{ttir_path, grid}] = std::move(instances);
}

void ShadowRuntime::SetDeadline(double seconds_from_now) {
  deadline_ = Now() + seconds_from_now;
}

Result<DeviceFacts> ShadowRuntime::Facts() {
  DeviceFacts facts;
  facts.name = "shadow device";
  facts.memory_bytes = KOPT_TRY(FreeMemory()) + memory_.allocated();
  return facts;
}

Result<int64_t> ShadowRuntime::FreeMemory() {
  // An address holds 43 bits of offset; storages are rules.
  return (int64_t{1} << 43) - memory_.allocated();
}

Result<Allocation> ShadowRuntime::Allocate(int64_t bytes, Placement) {
  if (bytes > KOPT_TRY(FreeMemory()))
    return Fail(ErrorKind::kEnvironment, "out_of_memory",
                fmt::format("{} bytes were asked for", bytes));
  Allocation allocation;
  allocation.storage = {memory_.Allocate(bytes), bytes};
  allocation.handle = allocation.storage.pointer;
  return allocation;
}

void ShadowRuntime::Free(const Allocation& allocation) {
  memory_.Free(allocation.handle);
}

Result<ShadowStorage*> ShadowRuntime::Whole(DevicePointer pointer) {
  ShadowStorage* storage = memory_.Find(pointer);
  if (storage == nullptr || ShadowMemory::Offset(pointer) != 0)
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("address {:#x} is not the start of a storage", pointer));
  return storage;
}

Status ShadowRuntime::CopyToDevice(DevicePointer to, const void* from, int64_t bytes) {
  ShadowStorage* storage = KOPT_TRY(Whole(to));
  storage->SetContent(
      ShadowContent::Host(std::string(static_cast<const char*>(from), static_cast<size_t>(bytes))));
  return {};
}

Status ShadowRuntime::CopyToHost(void* to, DevicePointer from, int64_t bytes) {
  ShadowStorage* storage = memory_.Find(from);
  const int64_t offset = ShadowMemory::Offset(from);
  // One that nobody has accessed has no elements, only bytes.
  const int size = storage == nullptr              ? 0
                   : storage->element_bytes() == 0 ? 1
                                                   : storage->element_bytes();
  if (size == 0 || offset % size != 0 || bytes % size != 0 || offset < 0 ||
      offset + bytes > storage->bytes())
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("{} bytes at {:#x} are no elements of a storage", bytes, from));
  for (int64_t at = 0; at < bytes; at += size) {
    uint64_t bits = 0;
    if (storage->element_bytes() == 0)
      storage->content().Fill(offset + at, 1, 1, &bits);
    else
      bits = storage->Element((offset + at) / size);
    std::memcpy(static_cast<char*>(to) + at, &bits, static_cast<size_t>(size));
  }
  return {};
}

Status ShadowRuntime::CopyOnDevice(DevicePointer to, DevicePointer from, int64_t) {
  ShadowStorage* target = KOPT_TRY(Whole(to));
  target->CopyFrom(*KOPT_TRY(Whole(from)));
  return {};
}

Result<int> ShadowRuntime::Load(const Program& program) {
  if (program.ttir_path.empty())
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("{} has no TTIR for the shadow device", program.record.entry));
  const TtirModule module =
      KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(program.ttir_path)), program.ttir_path));
  Loaded loaded;
  loaded.program = KOPT_TRY(CompileShadowProgram(module));
  for (const LaunchParameter& parameter : program.record.parameters)
    if (parameter.kind != LaunchParameter::Kind::kScratch)
      loaded.arguments.push_back(parameter.argument);
  if (loaded.arguments.size() != loaded.program.parameters.size())
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("{} takes {} arguments, its TTIR {}", program.record.entry,
                            loaded.arguments.size(), loaded.program.parameters.size()));
  if (auto uses = PointerUses(module))
    for (const PointerUse& use : *uses) loaded.written.push_back(use.stores + use.atomics > 0);
  loaded.grid = program.grid;
  if (auto plan = plans_.find({program.ttir_path, program.grid}); plan != plans_.end()) {
    loaded.instances = plan->second;
    loaded.sampled = true;
    sampled_ = true;
  } else {
    loaded.instances = AllInstances(program.grid);
  }
  loaded_.emplace(next_handle_, std::move(loaded));
  return next_handle_++;
}

void ShadowRuntime::Unload(int kernel) {
  loaded_.erase(kernel);
}

Status ShadowRuntime::Launch(const LaunchRequest& request) {
  if (deadline_ > 0 && Now() > deadline_)
    return Fail(ErrorKind::kEnvironment, "timeout", "the job's time limit ran out");
  const Loaded& loaded = loaded_.at(request.kernel);
  ShadowLaunch launch;
  launch.program = &loaded.program;
  launch.grid = loaded.grid;
  launch.instances = loaded.instances;
  launch.written = loaded.written;
  launch.most_work = most_work_;
  for (int argument : loaded.arguments) {
    if (argument < 0 || argument >= static_cast<int>(request.arguments.size()))
      return Fail(ErrorKind::kUsage, "job_error",
                  fmt::format("{} takes argument {} of {}", loaded.program.name, argument,
                              request.arguments.size()));
    const KernelValue& value = request.arguments[static_cast<size_t>(argument)];
    ShadowArgument& given = launch.arguments.emplace_back();
    given.address = value.pointer;
    given.int_value = value.int_value;
    given.float_value = value.float_value;
  }
  last_arguments_ = request.arguments;
  last_report_ = KOPT_TRY(RunShadow(memory_, launch));
  last_finding_.reset();
  if (last_report_.findings.empty()) return {};
  last_finding_ = last_report_.findings.front();
  last_argument_ = -1;
  for (size_t i = 0; i < loaded.arguments.size(); ++i) {
    if (loaded.program.parameters[i].is_pointer && last_finding_->storage >= 0 &&
        ShadowMemory::Number(launch.arguments[i].address) == last_finding_->storage)
      last_argument_ = loaded.arguments[i];
  }
  return Fail(ErrorKind::kUsage, "shadow_finding", Describe(*last_finding_));
}

Status ShadowRuntime::FillBytes(Region region, uint8_t value) {
  KOPT_TRY(Whole(region.pointer))->SetContent(ShadowContent::Bytes(value));
  return {};
}

Status ShadowRuntime::Generate(DevicePointer to, const KoptDraw& draw) {
  KOPT_TRY(Whole(to))->SetContent(ShadowContent::Draw(draw));
  return {};
}

Status ShadowRuntime::Poison(DevicePointer to, int64_t, DType dtype, int which) {
  KOPT_TRY(Whole(to))->SetContent(ShadowContent::Poison(dtype, which));
  return {};
}

Status ShadowRuntime::Widen(DevicePointer to, DevicePointer from, int64_t, DType dtype) {
  ShadowStorage* target = KOPT_TRY(Whole(to));
  const ShadowStorage* source = KOPT_TRY(Whole(from));
  target->SetContent(ShadowContent::Widened(source->shared_content(), dtype));
  for (const auto& [number, page] : source->pages()) {
    ForWritten(number, page->written, [&](int64_t index) {
      const double value = KoptDecode(source->Element(index), static_cast<int>(dtype));
      target->Store(index, KOPT_BITS_OF_DOUBLE(value));
    });
  }
  return {};
}

Status ShadowRuntime::AddConditioning(DevicePointer conditioning, DevicePointer perturbed,
                                      DevicePointer reference, int64_t, DType dtype, int steps) {
  ShadowStorage* sums = KOPT_TRY(Whole(conditioning));
  const ShadowStorage* moved = KOPT_TRY(Whole(perturbed));
  const ShadowStorage* kept = KOPT_TRY(Whole(reference));
  if (!sums->SetElementBytes(4))
    return Fail(ErrorKind::kUsage, "job_error", "a conditioning is no array of floats");
  for (const auto& [number, page] : moved->pages()) {
    ForWritten(number, page->written, [&](int64_t index) {
      const float before = KOPT_FLOAT_OF_BITS(sums->Element(index));
      const float sum = KoptAddConditioning(before, moved->Element(index), kept->Element(index),
                                            static_cast<int>(dtype), steps);
      sums->Store(index, KOPT_BITS_OF_FLOAT(sum));
    });
  }
  return {};
}

void ShadowRuntime::NoteLeftOut(DevicePointer candidate, int64_t index) {
  for (size_t i = 0; i < last_arguments_.size(); ++i) {
    const KernelValue& value = last_arguments_[i];
    if (value.kind != ArgumentSpec::Kind::kStorage ||
        ShadowMemory::Number(value.pointer) != ShadowMemory::Number(candidate))
      continue;
    std::set<int64_t>& of = left_out_[static_cast<int>(i)];
    if (of.size() < kMostLeftOut) of.insert(index);
    return;
  }
}

Result<std::vector<KoptStats>> ShadowRuntime::Compare(std::span<const CompareRequest> requests) {
  std::vector<KoptStats> all;
  for (const CompareRequest& request : requests) {
    const ShadowStorage* candidate = KOPT_TRY(Whole(request.candidate));
    const ShadowStorage* reference = KOPT_TRY(Whole(request.reference));
    const ShadowStorage* twin = request.twin == 0 ? nullptr : KOPT_TRY(Whole(request.twin));
    const ShadowStorage* sums =
        request.conditioning == 0 ? nullptr : KOPT_TRY(Whole(request.conditioning));
    KoptStats& stats = all.emplace_back();
    KoptClearStats(&stats);
    // In order, since the lowest index of each kind is kept.
    std::set<int64_t> pages;
    for (const auto& [number, page] : reference->pages()) pages.insert(number);
    for (const auto& [number, page] : candidate->pages()) pages.insert(number);
    for (int64_t number : pages) {
      const auto of = [number](const ShadowStorage* storage) {
        const auto it = storage->pages().find(number);
        return it == storage->pages().end() ? std::array<uint64_t, kShadowPageElements / 64>{}
                                            : it->second->written;
      };
      std::array<uint64_t, kShadowPageElements / 64> written = of(reference);
      const auto other = of(candidate);
      auto left_out = other;
      for (size_t word = 0; word < written.size(); ++word) {
        wanted_ += __builtin_popcountll(written[word]);
        left_out[word] = sampled_ ? written[word] & ~other[word] : 0;
        written[word] = sampled_ ? written[word] & other[word] : written[word] | other[word];
      }
      ForWritten(number, left_out, [&](int64_t index) {
        if (candidate->Element(index) != reference->Element(index))
          NoteLeftOut(request.candidate, index);
      });
      ForWritten(number, written, [&](int64_t index) {
        if (index >= request.count) return;
        ++compared_;
        KoptCompareElement(
            &stats, candidate->Element(index), reference->Element(index), twin != nullptr,
            twin != nullptr ? KOPT_DOUBLE_OF_BITS(twin->Element(index)) : 0,
            sums != nullptr && sums->element_bytes() == 4 ? KOPT_FLOAT_OF_BITS(sums->Element(index))
                                                          : 0,
            request.perturbations, index, static_cast<int>(request.dtype), request.poison);
      });
    }
  }
  return all;
}

Result<std::vector<uint64_t>> ShadowRuntime::Checksums(std::span<const Region> regions) {
  std::vector<uint64_t> sums;
  for (const Region& region : regions) {
    const ShadowStorage* storage = KOPT_TRY(Whole(region.pointer));
    uint64_t sum = storage->content().Fingerprint();
    for (const auto& [number, page] : storage->pages()) {
      ForWritten(number, page->written, [&](int64_t index) {
        uint64_t before = 0;
        storage->content().Fill(index, 1, storage->element_bytes(), &before);
        const uint64_t now = storage->Element(index);
        if (now != before) sum += KoptChecksumWord(now, static_cast<uint64_t>(index));
      });
    }
    sums.push_back(sum);
  }
  return sums;
}

Status ShadowRuntime::FlushL2() {
  return NoTime();
}
Status ShadowRuntime::Touch(std::span<const Region>) {
  return NoTime();
}
Result<int> ShadowRuntime::MakeGraph(std::span<const LaunchRequest>) {
  return NoTime();
}
Result<double> ShadowRuntime::TimeGraph(int) {
  return NoTime();
}

}  // namespace kernelopt
