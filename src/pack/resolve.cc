#include "pack/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "inductor/splice.h"
#include "pack/kernel_text_check.h"
#include "triton/static_check.h"

namespace kernelopt {
namespace {

bool Contains(const std::vector<std::string>& strings, const std::string& string) {
  return std::ranges::find(strings, string) != strings.end();
}

/// The source to compile in the place of a live kernel.
Result<std::string> SourceFor(const PackKernel& ours, const Kernel& live,
                              const std::string& triton_version) {
  ReplacementStep step = ours.replacement.steps.at(0);
  step.kernel_text = KOPT_TRY(RenameEntry(step.kernel_text, ours.name, live.entry));
  if (const auto findings = CheckKernelText(step.kernel_text, live, triton_version);
      !findings.empty()) {
    return Fail(ErrorKind::kUsage, findings[0].code, findings[0].message, live.name);
  }
  return BuildSource(live, step);
}

/// The pack's replacement of a kernel in a module, or a reason why there is none.
Result<const PackKernel*> FindReplacement(const Pack& pack, const std::string& module_key,
                                          const Kernel& live) {
  if (!live.user_path.empty()) {
    return Fail(ErrorKind::kUsage, "user_written", "the kernel was written by the user");
  }
  const PackKernel* found = nullptr;
  for (const PackKernel& kernel : pack.kernels) {
    if (kernel.replacement.kernel_key != live.key || !Contains(kernel.modules, module_key)) {
      continue;
    }
    if (found != nullptr) {
      return Fail(ErrorKind::kUsage, "ambiguous", "the pack has two replacements of the kernel");
    }
    found = &kernel;
  }
  if (live.key.empty() || found == nullptr) {
    return Fail(ErrorKind::kUsage, "kernel_not_replaced", "the compiler's kernel is kept");
  }
  return found;
}

}  // namespace

Json ResolveModule(const Pack& pack, std::string module_text) {
  Json answer;
  answer["module_key"] = "";
  answer["matched"] = false;
  answer["reason"] = "";
  answer["kernels"] = Json::array();
  const auto module = ReadModule(std::move(module_text), "module");
  if (!module) {
    answer["reason"] = "unreadable_module";
    return answer;
  }
  answer["module_key"] = module->key;
  const bool known = std::ranges::any_of(
      pack.variants, [&](const PackVariant& v) { return Contains(v.modules, module->key); });
  if (!known) {
    answer["reason"] = "module_not_in_pack";
    return answer;
  }
  answer["matched"] = true;
  for (const Kernel& live : module->kernels) {
    Json item;
    item["name"] = live.name;
    item["key"] = live.key;
    item["source_sha256"] = Sha256Hex(live.text);
    item["source"] = nullptr;
    item["config"] = nullptr;
    item["binary_hash"] = "";
    item["cubin"] = "";
    item["reason"] = "";
    const auto ours = FindReplacement(pack, module->key, live);
    const auto source = ours ? SourceFor(**ours, live, pack.triton)
                             : Result<std::string>(std::unexpected(ours.error()));
    if (source) {
      item["source"] = *source;
      item["config"] = ToJson((*ours)->replacement.steps.at(0).config);
      item["binary_hash"] = (*ours)->binary_hash;
      item["cubin"] = fmt::format("{}/{}", pack.folder, (*ours)->cubin_file);
    } else {
      item["reason"] = source.error().code;
    }
    answer["kernels"].push_back(std::move(item));
  }
  return answer;
}

std::string_view ToString(KernelState state) {
  switch (state) {
    case KernelState::kValid:
      return "valid";
    case KernelState::kBinaryChanged:
      return "binary changed";
    case KernelState::kKeyGone:
      return "key gone";
  }
  return "";
}

Result<std::vector<KernelComparison>> ComparePack(const Pack& pack, const Capture& fresh,
                                                  const HashOfSource& compile) {
  std::vector<Module> modules;
  for (const auto& [name, text] : fresh.modules) {
    modules.push_back(KOPT_TRY(ReadModule(text, name.substr(0, 12) + ".py")));
  }
  std::vector<KernelComparison> comparisons;
  for (const PackKernel& ours : pack.kernels) {
    KernelComparison comparison{ours.id, ours.name, ours.replacement.kernel_key,
                                KernelState::kValid, "our binary is the one that was proven"};
    size_t missing = 0;
    const Kernel* live = nullptr;
    for (const std::string& key : ours.modules) {
      const auto module = std::ranges::find(modules, key, &Module::key);
      const Kernel* found = nullptr;
      if (module != modules.end()) {
        const auto kernel =
            std::ranges::find(module->kernels, ours.replacement.kernel_key, &Kernel::key);
        if (kernel != module->kernels.end()) found = &*kernel;
      }
      missing += found == nullptr;
      if (found != nullptr) live = found;
    }
    if (missing > 0 || live == nullptr) {
      comparison.state = KernelState::kKeyGone;
      comparison.message =
          fmt::format("the compiler no longer makes this kernel in {} of its {} modules", missing,
                      ours.modules.size());
      comparisons.push_back(std::move(comparison));
      continue;
    }
    Result<std::string> hash = SourceFor(ours, *live, pack.triton);
    if (hash) hash = compile(*hash, live->entry, ours.replacement.steps.at(0).config);
    if (!hash && hash.error().kind != ErrorKind::kUsage && hash.error().code != "compile_error") {
      return std::unexpected(hash.error());
    }
    if (!hash || *hash != ours.binary_hash) {
      comparison.state = KernelState::kBinaryChanged;
      comparison.message =
          hash ? "the same text now compiles to another binary"
               : fmt::format("the text no longer compiles ({})", hash.error().message);
    }
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

}  // namespace kernelopt
