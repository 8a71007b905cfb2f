#include "device/site_memory.h"

#include <fmt/format.h>

#include "base/file.h"
#include "device/data.h"

namespace kernelopt {
namespace {

constexpr uint8_t kCanaryByte = 0xC5;

Status CheckSite(const Site& site) {
  const auto bad = [&](std::string message) {
    return Fail(ErrorKind::kUsage, "job_error", std::move(message), site.name);
  };
  for (size_t i = 0; i < site.arguments.size(); ++i) {
    const ArgumentSpec& argument = site.arguments[i];
    if (argument.kind != ArgumentSpec::Kind::kStorage) continue;
    if (argument.storage < 0 || argument.storage >= static_cast<int>(site.storages.size())) {
      return bad(fmt::format("argument {} is storage {}, wanted one of the site's {}", i,
                             argument.storage, site.storages.size()));
    }
    const int64_t bytes = site.storages[static_cast<size_t>(argument.storage)].bytes;
    if (argument.byte_offset < 0 || argument.byte_offset > bytes) {
      return bad(fmt::format("argument {} starts at byte {} of a storage of {} bytes", i,
                             argument.byte_offset, bytes));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<SiteMemory>> SiteMemory::Create(KernelRuntime& runtime, const Site& site,
                                                       Placement placement) {
  KOPT_CHECK_OK(CheckSite(site));
  std::unique_ptr<SiteMemory> memory(new SiteMemory(runtime, site));
  for (size_t i = 0; i < site.storages.size(); ++i) {
    const StorageSpec& spec = site.storages[i];
    KOPT_TRY(MakeDraw(spec, static_cast<int>(i), DataSet{}));  // checks the spec
    if (!spec.contents_path.empty() && spec.role == StorageRole::kData) {
      auto bytes = ReadFile(spec.contents_path);
      if (!bytes || static_cast<int64_t>(bytes->size()) != spec.bytes) {
        return Fail(
            ErrorKind::kUsage, "job_error",
            fmt::format("storage {} needs {} bytes of recorded contents, found {}", i, spec.bytes,
                        bytes ? std::to_string(bytes->size()) : bytes.error().message),
            spec.contents_path);
      }
      memory->contents_[static_cast<int>(i)] = std::move(*bytes);
    }
    memory->allocations_.push_back(KOPT_TRY(runtime.Allocate(spec.bytes, placement)));
    const Allocation& allocation = memory->allocations_.back();
    for (const Region& canary : {allocation.before, allocation.after}) {
      if (canary.bytes > 0) KOPT_CHECK_OK(runtime.FillBytes(canary, kCanaryByte));
    }
    if (!spec.written) {
      memory->guarded_.push_back(allocation.storage);
      memory->guarded_storage_.push_back(static_cast<int>(i));
    }
  }
  memory->unwritten_ = memory->guarded_.size();
  for (size_t i = 0; i < site.storages.size(); ++i) {
    const Allocation& allocation = memory->allocations_[i];
    for (const Region& canary : {allocation.before, allocation.after}) {
      if (canary.bytes == 0) continue;
      memory->guarded_.push_back(canary);
      memory->guarded_storage_.push_back(static_cast<int>(i));
    }
  }
  memory->states_.resize(site.storages.size());
  return memory;
}

SiteMemory::~SiteMemory() {
  for (const Allocation& allocation : allocations_) runtime_.Free(allocation);
}

Status SiteMemory::Fill(int index, const State& state) {
  const StorageSpec& spec = site_.storages[static_cast<size_t>(index)];
  const Region& region = storage(index);
  if (region.bytes == 0) return {};
  switch (spec.role) {
    case StorageRole::kZeros:
      return runtime_.FillBytes(region, 0);
    case StorageRole::kPoison:
      return runtime_.Poison(region.pointer, spec.bytes / SizeOf(spec.dtype), spec.dtype,
                             state.poison);
    case StorageRole::kData:
      break;
  }
  if (auto it = contents_.find(index); it != contents_.end()) {
    return runtime_.CopyToDevice(region.pointer, it->second.data(), region.bytes);
  }
  return runtime_.Generate(region.pointer,
                           KOPT_TRY(MakeDraw(spec, index, state.data, state.perturbation)));
}

Status SiteMemory::Prepare(const DataSet& data, int poison, int perturbation) {
  for (int i = 0; i < static_cast<int>(states_.size()); ++i) {
    const StorageSpec& spec = site_.storages[static_cast<size_t>(i)];
    State& state = states_[static_cast<size_t>(i)];
    const bool same =
        state.filled && !spec.written &&
        (spec.role != StorageRole::kPoison || state.poison == poison) &&
        (spec.role != StorageRole::kData ||
         (state.data.family == data.family && state.data.seed == data.seed &&
          state.data.in_envelope == data.in_envelope && state.perturbation == perturbation));
    if (same) continue;
    state = {true, data, poison, perturbation};
    KOPT_CHECK_OK(Fill(i, state));
  }
  return {};
}

std::vector<KernelValue> SiteMemory::Arguments() const {
  std::vector<KernelValue> values;
  for (const ArgumentSpec& argument : site_.arguments) {
    KernelValue value;
    value.kind = argument.kind;
    value.int_value = argument.int_value;
    value.float_value = argument.float_value;
    if (argument.kind == ArgumentSpec::Kind::kStorage) {
      value.pointer =
          storage(argument.storage).pointer + static_cast<uint64_t>(argument.byte_offset);
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace kernelopt
