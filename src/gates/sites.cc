#include "gates/sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "inductor/module.h"
#include "inductor/splice.h"
#include "triton/config_space.h"

namespace kernelopt {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

/// What is known of a storage from all the slots that share it.
struct Joined {
  int storage = -1;
  bool loaded = false, stored = false, weight = false;
  std::set<std::string> dtypes, loaded_dtypes;
  bool has_values = false, all_have_values = true;
  double low = 0, high = 0;
  std::string contents;
};

/// True when the program zero-filled the storage and nothing used it since.
bool IsZeroFilled(const Graph& graph, int event, int storage) {
  for (int e = event - 1; e >= 0; --e) {
    const Event& before = graph.events[static_cast<size_t>(e)];
    if (before.kind == Event::Kind::kZero && before.storage == storage) return true;
    if (before.kind == Event::Kind::kAlloc && before.storage == storage) return false;
    for (const EventArgument& argument : before.arguments) {
      if (argument.kind == EventArgument::Kind::kTensor && argument.tensor.storage == storage)
        return false;
    }
  }
  return false;
}

/// Bytes of the storage that a view spans; -1 for a view with a negative stride.
int64_t EndOfView(const TensorRef& tensor, int element) {
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.size.size(); ++i) {
    if (tensor.size[i] == 0) return 0;
    if (i >= tensor.stride.size() || tensor.stride[i] < 0) return -1;
    last += (tensor.size[i] - 1) * tensor.stride[i];
  }
  return (last + 1) * element;
}

}  // namespace

std::vector<int> ArgumentsOfParameters(const Kernel& kernel) {
  std::vector<int> arguments;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const KernelArgument& argument = kernel.arguments[i];
    if (argument.triton_type == "constexpr" || !argument.annotation.empty()) continue;
    arguments.push_back(static_cast<int>(i));
  }
  return arguments;
}

Result<std::vector<PointerUse>> UsesByArgument(const Kernel& kernel,
                                               const std::vector<PointerUse>& uses) {
  std::vector<PointerUse> spread;
  size_t next = 0;
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.triton_type == "constexpr" || !argument.annotation.empty()) {
      spread.emplace_back();
    } else if (next < uses.size()) {
      spread.push_back(uses[next++]);
    } else {
      next = uses.size() + 1;
      break;
    }
  }
  if (next != uses.size()) {
    return Fail(ErrorKind::kUsage, "argument_count",
                fmt::format("{}: the TTIR has {} parameters, which are not the kernel's arguments "
                            "without its constants",
                            kernel.name, uses.size()));
  }
  return spread;
}

Result<BuiltSite> BuildSite(const Capture& capture, const CallSite& where, const Kernel& kernel,
                            const std::vector<PointerUse>& uses) {
  const Variant& variant = capture.variants[static_cast<size_t>(where.variant)];
  const Graph& graph = variant.graphs[static_cast<size_t>(where.graph)];
  const Event& event = graph.events[static_cast<size_t>(where.event)];
  std::string place = where.ToString(capture);
  auto fail = [&](std::string_view code, std::string message) {
    return Fail(ErrorKind::kUsage, code, fmt::format("{}: {}", kernel.name, message), place);
  };

  BuiltSite built;
  built.where = where;
  built.site.name = place;
  built.numels = LaunchNumels(kernel, event);
  built.compiler_config = ConfigOfLaunch(event.config);
  built.grid = event.grid;
  built.binary_hash = event.binary_hash;
  built.device_us = event.device_us;

  if (event.arguments.size() > kernel.arguments.size() || uses.size() != kernel.arguments.size()) {
    return fail("argument_count",
                fmt::format("the launch passes {} arguments and {} are analysed, the kernel has {}",
                            event.arguments.size(), uses.size(), kernel.arguments.size()));
  }
  std::vector<Joined> joined;
  for (size_t i = 0; i < event.arguments.size(); ++i) {
    const EventArgument& argument = event.arguments[i];
    const std::string& name = kernel.arguments[i].name;
    ArgumentSpec spec;
    switch (argument.kind) {
      case EventArgument::Kind::kInt:
      case EventArgument::Kind::kBool:
        spec.kind = ArgumentSpec::Kind::kInt;
        spec.int_value = argument.int_value;
        break;
      case EventArgument::Kind::kFloat:
        spec.kind = ArgumentSpec::Kind::kFloat;
        spec.float_value = argument.float_value;
        break;
      case EventArgument::Kind::kTensor: {
        const TensorRef& tensor = argument.tensor;
        auto dtype = DTypeFromTriton(tensor.dtype);
        if (!dtype) {
          return fail("unsupported_dtype",
                      fmt::format("argument {} has elements of type {}", name, tensor.dtype));
        }
        if (uses[i].atomics > 0)
          return fail("atomics", fmt::format("argument {} is updated by atomics", name));
        auto slot = std::find_if(joined.begin(), joined.end(),
                                 [&](const Joined& j) { return j.storage == tensor.storage; });
        if (slot == joined.end()) {
          joined.push_back({});
          slot = joined.end() - 1;
          slot->storage = tensor.storage;
        }
        bool loaded = uses[i].loads > 0;
        slot->loaded |= loaded;
        slot->stored |= uses[i].stores > 0;
        slot->weight |= uses[i].weight;
        slot->dtypes.insert(tensor.dtype);
        if (loaded) {
          slot->loaded_dtypes.insert(tensor.dtype);
          if (tensor.has_values) {
            slot->low = slot->has_values ? std::min(slot->low, tensor.low) : tensor.low;
            slot->high = slot->has_values ? std::max(slot->high, tensor.high) : tensor.high;
            slot->has_values = true;
          } else {
            slot->all_have_values = false;
          }
        }
        if (!tensor.contents.empty()) slot->contents = tensor.contents;
        spec.storage = static_cast<int>(slot - joined.begin());
        spec.byte_offset = tensor.offset * SizeOf(*dtype);
        auto record = std::find_if(
            variant.storages.begin(), variant.storages.end(),
            [&](const StorageRecord& storage) { return storage.id == tensor.storage; });
        if (record == variant.storages.end()) {
          return fail("unknown_storage",
                      fmt::format("argument {} lies in storage {}, which the capture doesn't list",
                                  name, tensor.storage));
        }
        int64_t end = EndOfView(tensor, SizeOf(*dtype));
        if (tensor.offset < 0 || end < 0 || end > record->bytes) {
          return fail("outside_storage",
                      fmt::format("argument {} spans {} bytes of a storage of {}", name, end,
                                  record->bytes));
        }
        break;
      }
      case EventArgument::Kind::kNone:
      case EventArgument::Kind::kOther:
        return fail("unsupported_argument",
                    fmt::format("argument {} is neither a tensor nor a number: {}", name,
                                argument.text.empty() ? "None" : argument.text));
    }
    built.site.arguments.push_back(spec);
  }

  for (const Joined& slot : joined) {
    StorageSpec storage;
    for (const StorageRecord& record : variant.storages)
      if (record.id == slot.storage) storage.bytes = record.bytes;
    // One element type, so that data, comparison and guard bytes make sense.
    const std::set<std::string>& dtypes = slot.loaded ? slot.loaded_dtypes : slot.dtypes;
    if (slot.dtypes.size() > 1) {
      return fail("mixed_dtypes", fmt::format("storage {} is used as {} and as {}", slot.storage,
                                              *slot.dtypes.begin(), *slot.dtypes.rbegin()));
    }
    storage.dtype = *DTypeFromTriton(*dtypes.begin());
    storage.written = slot.stored;
    storage.is_weight = slot.weight;
    storage.role = !slot.loaded ? StorageRole::kPoison : StorageRole::kData;
    if (slot.loaded && IsZeroFilled(graph, where.event, slot.storage))
      storage.role = StorageRole::kZeros;
    if (!IsFloat(storage.dtype)) {
      if (storage.dtype == DType::kBool) {
        storage.int_low = 0;
        storage.int_high = 1;
      } else if (slot.has_values && slot.all_have_values) {
        storage.int_low = static_cast<int64_t>(slot.low);
        storage.int_high = static_cast<int64_t>(slot.high);
      } else if (storage.role == StorageRole::kData) {
        return fail("unknown_integer_domain",
                    fmt::format("integers of storage {} are loaded but their range was not "
                                "recorded",
                                slot.storage));
      }
      if (!slot.contents.empty() && storage.role == StorageRole::kData)
        storage.contents_path = capture.BlobPath(slot.contents);
    } else if (slot.has_values && slot.all_have_values && std::isfinite(slot.low) &&
               std::isfinite(slot.high)) {
      storage.has_envelope = true;
      storage.float_low = slot.low;
      storage.float_high = slot.high;
    }
    built.site.storages.push_back(std::move(storage));
  }

  for (int recent : RecentStorages(capture, where)) {
    auto slot = std::find_if(joined.begin(), joined.end(),
                             [&](const Joined& j) { return j.storage == recent; });
    if (slot != joined.end()) built.touched.push_back(static_cast<int>(slot - joined.begin()));
  }
  return built;
}

Result<CompileRequest> RequestFor(const Kernel& kernel, const ReplacementStep& step,
                                  int compute_capability) {
  CompileRequest request;
  request.source = KOPT_TRY(BuildSource(kernel, step));
  request.kernel_name = kernel.entry;
  request.config = step.config;
  request.compute_capability = compute_capability;
  return request;
}

CompileRequest BaselineRequest(const Kernel& kernel, const LaunchConfig& config,
                               const std::string& expected_hash, int compute_capability) {
  CompileRequest request;
  request.source = kernel.text;
  request.kernel_name = kernel.entry;
  request.config = config;
  request.compute_capability = compute_capability;
  request.expected_hash = expected_hash;
  return request;
}

Result<Program> ProgramAt(const Kernel& kernel, const LaunchConfig& config,
                          const CompileOutput& compiled, const BuiltSite& site) {
  Program program;
  program.cubin_path = compiled.cubin_path;
  program.ttir_path = compiled.ttir_path;
  program.record = compiled.record;
  program.grid = KOPT_TRY(ComputeGrid(kernel, config, site.numels));
  return program;
}

}  // namespace kernelopt
