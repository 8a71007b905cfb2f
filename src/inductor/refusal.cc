#include "inductor/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "inductor/kernel_source.h"
#include "inductor/literal.h"

namespace kernelopt {
namespace {

struct Reason {
  std::string_view code;
  std::string message;
};
using MaybeReason = std::optional<Reason>;

MaybeReason ByDefinition(const Module& module, const Kernel& kernel) {
  if (!kernel.user_path.empty() || kernel.decorator == "user_autotune") {
    return Reason{"user_written", "it is the user's own Triton kernel"};
  }
  if (!kernel.problem.empty()) {
    return Reason{"unreadable_source", "its source can't be read: " + kernel.problem};
  }
  if (!kernel.device_str.empty() && kernel.device_str != "cuda") {
    return Reason{"not_cuda", fmt::format("it is compiled for '{}'", kernel.device_str)};
  }
  if (std::ranges::count(module.used_elsewhere, kernel.name) > 0) {
    return Reason{"other_use", "the module uses it in another way than by launching it"};
  }
  return std::nullopt;
}

MaybeReason ByKind(const Kernel& kernel) {
  constexpr std::pair<std::string_view, std::string_view> kDecorators[] = {
      {"template", "template"},
      {"foreach", "foreach"},
      {"cooperative_reduction", "cooperative"},
      {"split_scan", "split_scan"},
  };
  constexpr std::string_view kReplaced[] = {"pointwise", "reduction", "persistent_reduction"};
  constexpr std::string_view kGrids[] = {"Grid1D", "Grid2D", "Grid3D", "Grid2DWithYZOverflow"};
  for (const auto& [decorator, code] : kDecorators) {
    if (kernel.decorator == decorator) {
      return Reason{code, fmt::format("it is a {} kernel", decorator)};
    }
  }
  if (kernel.inductor_meta->contains("combo_grid_meta") ||
      kernel.grid_type.find("Combo") != std::string::npos) {
    return Reason{"combo", "it is several kernels in one (combo)"};
  }
  if (std::ranges::count(kReplaced, kernel.decorator) == 0) {
    return Reason{"unsupported_kind", fmt::format("its decorator is '{}'", kernel.decorator)};
  }
  if (std::ranges::count(kGrids, kernel.grid_type) == 0) {
    return Reason{"unsupported_kind", fmt::format("its grid type is '{}'", kernel.grid_type)};
  }
  const auto device = kernel.triton_meta->find("device");
  const std::string text = device != kernel.triton_meta->end() && device->is_string()
                               ? Compact(device->get<std::string>())
                               : "";
  if (text.find("type='cuda'") == std::string::npos) {
    return Reason{"not_cuda", "its metadata doesn't say that it is compiled for CUDA"};
  }
  return std::nullopt;
}

MaybeReason ByType(const KernelArgument& argument) {
  constexpr std::string_view kTypes[] = {"fp16", "bf16", "fp32", "fp64", "i1",  "i8", "i16",
                                         "i32",  "i64",  "u8",   "u16",  "u32", "u64"};
  std::string_view type = argument.triton_type;
  if (type == "constexpr") return std::nullopt;
  if (type.starts_with('*')) type.remove_prefix(1);
  if (std::ranges::count(kTypes, type) > 0) return std::nullopt;
  const std::string_view code = type.starts_with("fp8") || type.starts_with("float8") ? "fp8"
                                : type.starts_with('c')                               ? "complex"
                                                        : "unsupported_type";
  return Reason{code, fmt::format("its argument {} has the type '{}'", argument.name, type)};
}

// Names that the body binds to integer literals: `xnumel = 4096`.
std::set<std::string> LiteralNames(Node function) {
  std::set<std::string> names;
  for (Node statement : function.Field("body").NamedChildren()) {
    const auto children = statement.NamedChildren();
    if (children.size() == 1 && children[0].Is("assignment") &&
        children[0].Field("right").Is("integer")) {
      names.insert(std::string(children[0].Field("left").Text()));
    }
  }
  return names;
}

bool IsInteger(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

MaybeReason ByArguments(const Kernel& kernel, Node function) {
  const std::set<std::string> literal = LiteralNames(function);
  const auto constants = kernel.triton_meta->find("constants");
  for (const KernelArgument& argument : kernel.arguments) {
    if (auto reason = ByType(argument)) return reason;
    const bool is_pointer = argument.triton_type.starts_with('*');
    if (is_pointer || argument.triton_type == "constexpr") continue;
    const bool is_constant = constants != kernel.triton_meta->end() && constants->is_object() &&
                             constants->contains(argument.name);
    if (is_constant || literal.contains(argument.name)) continue;
    if (argument.name.find("seed_offset") != std::string::npos) {
      return Reason{"random_numbers", "it draws random numbers"};
    }
    const bool is_size = argument.name.ends_with("numel") || argument.name.starts_with("ks");
    if (is_size) {
      return Reason{"symbolic_sizes",
                    fmt::format("its size {} is known only when it runs", argument.name)};
    }
    return Reason{
        "scalar_argument",
        fmt::format("its scalar argument {} may change from call to call", argument.name)};
  }
  return std::nullopt;
}

MaybeReason ByName(std::string_view name) {
  if (name.starts_with("rand") || name.starts_with("philox")) {
    return Reason{"random_numbers", "it draws random numbers"};
  }
  if (name.starts_with("atomic_")) return Reason{"atomics", "it uses atomic operations"};
  if (name.starts_with("inline_asm")) return Reason{"inline_assembly", "it holds assembly"};
  if (name.find("barrier") != std::string_view::npos && name != "debug_barrier") {
    return Reason{"waits_for_programs", "its programs wait for each other"};
  }
  if (name.starts_with("exclusive_scan_decoupled")) {
    return Reason{"waits_for_programs", "its programs wait for each other"};
  }
  if (name.starts_with("float8") || name.starts_with("fp8")) {
    return Reason{"fp8", "it computes in fp8"};
  }
  return std::nullopt;
}

MaybeReason ByCode(const Kernel& kernel, const KernelSource& source) {
  const auto atomic = kernel.inductor_meta->find("atomic_add_found");
  if (atomic != kernel.inductor_meta->end() && *atomic == true) {
    return Reason{"atomics", "it uses atomic operations"};
  }
  MaybeReason found;
  const auto look = [&](Node node) {
    if (!found && node.Is("attribute")) found = ByName(node.Field("attribute").Text());
    return !found;
  };
  for (Node helper : source.helpers) Walk(helper, look);
  Walk(source.function, look);
  return found;
}

MaybeReason ByLaunches(const Module& module, const Kernel& kernel) {
  bool launched = false;
  for (const Launch& launch : module.launches) {
    if (launch.kernel != kernel.name) continue;
    launched = true;
    // Positional arguments are those of the def without trailing constexprs.
    for (size_t i = 0; i < launch.arguments.size() && i < kernel.arguments.size(); ++i) {
      const KernelArgument& argument = kernel.arguments[i];
      if (argument.name.ends_with("numel") && !IsInteger(launch.arguments[i])) {
        return Reason{"symbolic_sizes",
                      fmt::format("a launch passes {} = {}", argument.name, launch.arguments[i])};
      }
    }
  }
  if (!launched) return Reason{"other_use", "the module never launches it by name"};
  return std::nullopt;
}

MaybeReason ReasonOf(const Module& module, const Kernel& kernel) {
  if (auto reason = ByDefinition(module, kernel)) return reason;
  if (auto reason = ByKind(kernel)) return reason;
  const auto source = ParseKernelSource(kernel.text, kernel.name, kernel.entry);
  if (!source) return Reason{"unreadable_source", source.error().ToString()};
  if (auto reason = ByArguments(kernel, source->function)) return reason;
  if (auto reason = ByCode(kernel, *source)) return reason;
  return ByLaunches(module, kernel);
}

}  // namespace

std::optional<Refusal> RefusalOf(const Module& module, const Kernel& kernel) {
  auto reason = ReasonOf(module, kernel);
  if (!reason) return std::nullopt;
  return Refusal{kernel.name, std::string(reason->code),
                 fmt::format("{} is kept: {}", kernel.name, reason->message)};
}

std::vector<Refusal> Refusals(const Module& module) {
  std::vector<Refusal> refusals;
  for (const Kernel& kernel : module.kernels) {
    if (auto refusal = RefusalOf(module, kernel)) refusals.push_back(std::move(*refusal));
  }
  return refusals;
}

}  // namespace kernelopt
