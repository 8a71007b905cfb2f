#include "device/twin_reference.h"

namespace kernelopt {

Result<std::unique_ptr<TwinReference>> TwinReference::Create(KernelRuntime& runtime,
                                                             const Program& twin,
                                                             const Site& site) {
  std::unique_ptr<TwinReference> reference(new TwinReference(runtime, site));
  reference->kernel_ = KOPT_TRY(runtime.Load(twin));
  for (size_t i = 0; i < site.storages.size(); ++i) {
    const StorageSpec& spec = site.storages[i];
    if (!spec.written || spec.bytes == 0 || !KoptIsFloat(static_cast<int>(spec.dtype))) continue;
    Output& output = reference->outputs_[static_cast<int>(i)];
    output.count = spec.bytes / SizeOf(spec.dtype);
    output.values = KOPT_TRY(runtime.Allocate(8 * output.count, Placement::kMiddle));
    output.perturbed = KOPT_TRY(runtime.Allocate(8 * output.count, Placement::kMiddle));
    output.conditioning = KOPT_TRY(runtime.Allocate(4 * output.count, Placement::kMiddle));
  }
  return reference;
}

TwinReference::~TwinReference() {
  for (const auto& [storage, output] : outputs_) {
    for (const Allocation* allocation : {&output.values, &output.perturbed, &output.conditioning}) {
      if (allocation->storage.bytes > 0) runtime_.Free(*allocation);
    }
  }
  if (kernel_ >= 0) runtime_.Unload(kernel_);
}

DevicePointer TwinReference::values(int storage) const {
  const auto it = outputs_.find(storage);
  return it == outputs_.end() ? 0 : it->second.values.storage.pointer;
}

DevicePointer TwinReference::conditioning(int storage) const {
  const auto it = outputs_.find(storage);
  return it == outputs_.end() ? 0 : it->second.conditioning.storage.pointer;
}

Status TwinReference::RunOnce(SiteMemory& memory, const DataSet& data, int perturbation,
                              Allocation Output::* to) {
  KOPT_CHECK_OK(memory.Prepare(data, 0, perturbation));
  for (const auto& [storage, output] : outputs_) {
    const Region& region = (output.*to).storage;
    switch (site_.storages[static_cast<size_t>(storage)].role) {
      case StorageRole::kPoison:
        KOPT_CHECK_OK(runtime_.Poison(region.pointer, output.count, DType::kFloat64, 0));
        break;
      case StorageRole::kZeros:
        KOPT_CHECK_OK(runtime_.FillBytes(region, 0));
        break;
      case StorageRole::kData:
        KOPT_CHECK_OK(runtime_.Widen(region.pointer, memory.storage(storage).pointer, output.count,
                                     site_.storages[static_cast<size_t>(storage)].dtype));
        break;
    }
  }
  std::vector<KernelValue> arguments = memory.Arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ArgumentSpec& argument = site_.arguments[i];
    if (argument.kind != ArgumentSpec::Kind::kStorage) continue;
    const auto it = outputs_.find(argument.storage);
    if (it == outputs_.end()) continue;
    const DType dtype = site_.storages[static_cast<size_t>(argument.storage)].dtype;
    arguments[i].pointer = (it->second.*to).storage.pointer +
                           static_cast<uint64_t>(argument.byte_offset / SizeOf(dtype) * 8);
  }
  KOPT_CHECK_OK(runtime_.Launch({kernel_, std::move(arguments)}));
  return runtime_.Synchronize();
}

Status TwinReference::Run(SiteMemory& memory, const DataSet& data, int perturbations,
                          DType perturbed) {
  KOPT_CHECK_OK(RunOnce(memory, data, 0, &Output::values));
  for (const auto& [storage, output] : outputs_) {
    KOPT_CHECK_OK(runtime_.FillBytes(output.conditioning.storage, 0));
  }
  for (int run = 1; run <= perturbations; ++run) {
    KOPT_CHECK_OK(RunOnce(memory, data, run, &Output::perturbed));
    for (const auto& [storage, output] : outputs_) {
      KOPT_CHECK_OK(runtime_.AddConditioning(
          output.conditioning.storage.pointer, output.perturbed.storage.pointer,
          output.values.storage.pointer, output.count, DType::kFloat64,
          KoptSteps(static_cast<int>(perturbed))));
    }
  }
  return {};
}

}  // namespace kernelopt
