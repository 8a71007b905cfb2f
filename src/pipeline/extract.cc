#include "pipeline/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "gates/sites.h"
#include "inductor/refusal.h"
#include "inductor/splice.h"
#include "triton/config_space.h"
#include "ttir/ttir.h"

namespace kernelopt {
namespace {

const Event& EventAt(const Capture& capture, const CallSite& where) {
  return capture.variants[where.variant].graphs[where.graph].events[where.event];
}

void Refuse(ExtractedKernel* kernel, const Error& error) {
  kernel->refused = error.code;
  kernel->why = error.message;
  kernel->subject.sites.clear();
}

/// What each pointer of the compiled kernel is used for, by its arguments.
Result<std::vector<PointerUse>> ReadUses(const Kernel& kernel, const CompileOutput& compiled) {
  std::string text = KOPT_TRY(ReadFile(compiled.ttir_path));
  TtirModule module = KOPT_TRY(ReadTtir(text, compiled.ttir_path));
  return UsesByArgument(kernel, KOPT_TRY(PointerUses(module)));
}

void BuildSites(const Capture& capture, ExtractedKernel* kernel) {
  for (const CallSite& where : kernel->work.sites) {
    auto site = BuildSite(capture, where, *kernel->work.kernel, kernel->uses);
    if (!site) {
      Error error = site.error();
      error.message = error.ToString();
      Refuse(kernel, error);
      return;
    }
    kernel->subject.sites.push_back(std::move(*site));
  }
}

/// A kernel is left alone if any module that it occurs in says so.
std::optional<Refusal> RefusalIn(const std::map<std::string, Module>& modules,
                                 const std::string& key) {
  for (const auto& [hash, module] : modules) {
    for (const Kernel& kernel : module.kernels) {
      if (kernel.key != key) continue;
      if (auto refusal = RefusalOf(module, kernel)) return refusal;
    }
  }
  return std::nullopt;
}

/// Errors that say that no compile worker runs at all, not that one kernel is
/// at fault.
bool IsOfTheWorkers(const Error& error) {
  return error.kind == ErrorKind::kInterrupted || error.kind == ErrorKind::kEnvironment;
}

}  // namespace

const ExtractedKernel* Extraction::Find(const std::string& key) const {
  for (const ExtractedKernel& kernel : kernels) {
    if (kernel.work.key == key) return &kernel;
  }
  return nullptr;
}

std::vector<std::string> Extraction::ModuleKeys(const Variant& variant,
                                                const std::string& key) const {
  std::vector<std::string> keys;
  for (const Graph& graph : variant.graphs) {
    auto module = modules.find(graph.module);
    if (module == modules.end()) continue;
    bool holds = std::ranges::any_of(module->second.kernels,
                                     [&](const Kernel& kernel) { return kernel.key == key; });
    if (holds && std::ranges::find(keys, module->second.key) == keys.end()) {
      keys.push_back(module->second.key);
    }
  }
  return keys;
}

Result<CompileOutput> CompileReplacement(Compiler& compiler, const Kernel& kernel,
                                         const Replacement& replacement, int compute_capability) {
  if (replacement.form != ReplacementForm::kDropIn || replacement.steps.size() != 1) {
    return Fail(ErrorKind::kInternal, "not_drop_in",
                "only replacements of the form drop_in can be compiled", kernel.name);
  }
  std::vector<CompileRequest> requests = {
      KOPT_TRY(RequestFor(kernel, replacement.steps[0], compute_capability))};
  return std::move(compiler.CompileAll(requests, [](size_t) {}).at(0));
}

Result<CompileOutput> CompileBaseline(Compiler& compiler, const SearchSubject& subject,
                                      int compute_capability) {
  const BuiltSite& site = subject.sites.front();
  return std::move(compiler
                       .CompileAll({BaselineRequest(*subject.kernel, site.compiler_config,
                                                    site.binary_hash, compute_capability)},
                                   [](size_t) {})
                       .at(0));
}

Result<Extraction> Extract(const std::string& capture_folder, Compiler& compiler,
                           const std::function<void(size_t, size_t)>& done) {
  Extraction extraction;
  extraction.capture = KOPT_TRY(ReadCapture(capture_folder));
  const Capture& capture = extraction.capture;
  for (const auto& [hash, text] : capture.modules) {
    extraction.modules.emplace(
        hash, KOPT_TRY(ReadModule(text, capture_folder + "/modules/" + hash + ".py")));
  }
  for (const Variant& variant : capture.variants) {
    for (const Graph& graph : variant.graphs) {
      for (const Event& event : graph.events) {
        extraction.launches += event.kind == Event::Kind::kLaunch;
        extraction.externs += event.kind == Event::Kind::kExtern;
      }
    }
  }

  std::vector<CompileRequest> requests;
  std::vector<ExtractedKernel*> compiled;
  std::vector<KernelWork> work = CollectWork(capture, extraction.modules);
  extraction.kernels.reserve(work.size());  // `compiled` points into it
  for (KernelWork& item : work) {
    ExtractedKernel& kernel = extraction.kernels.emplace_back();
    kernel.work = std::move(item);
    kernel.subject.key = kernel.work.key;
    kernel.subject.kernel = kernel.work.kernel;
    if (auto refusal = RefusalIn(extraction.modules, kernel.work.key)) {
      kernel.refused = refusal->code;
      kernel.why = refusal->message;
      continue;
    }
    const Event& launch = EventAt(capture, kernel.work.sites.front());
    requests.push_back(BaselineRequest(*kernel.work.kernel, ConfigOfLaunch(launch.config),
                                       launch.binary_hash, capture.compute_capability));
    compiled.push_back(&kernel);
  }

  size_t finished = 0;
  auto outputs = compiler.CompileAll(requests, [&](size_t) { done(++finished, requests.size()); });
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) {
      if (IsOfTheWorkers(outputs[i].error())) return std::unexpected(outputs[i].error());
      Refuse(compiled[i], outputs[i].error());
      continue;
    }
    auto uses = ReadUses(*compiled[i]->work.kernel, *outputs[i]);
    if (!uses) {
      Refuse(compiled[i], uses.error());
      continue;
    }
    compiled[i]->uses = std::move(*uses);
    BuildSites(capture, compiled[i]);
  }
  return extraction;
}

}  // namespace kernelopt
