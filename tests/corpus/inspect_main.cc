// inspect_corpus FOLDER: reads every generated module of a folder and prints one
// JSON object a line: {"file", "error"} or {"file", "module", "refusals",
// "sources", "failures"}. `failures` lists the promises of the reader and the
// splicer that the module breaks: that it re-assembles byte for byte, that a
// replaced source reads back as it was, that a byte changed outside and a dropped
// library call are caught.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "inductor/module.h"
#include "inductor/refusal.h"
#include "inductor/splice.h"

namespace kernelopt {
namespace {

// Text with everything that needs an escape inside '''...'''.
constexpr const char* kHardTail = "\n# it's \\ '''quoted''' \"\"\" \\n and ends with '";

std::vector<std::string> Names(const Module& module) {
  std::vector<std::string> names;
  for (const Kernel& kernel : module.kernels) names.push_back(kernel.name);
  return names;
}

void CheckSplicing(const Module& module, Json& failures) {
  std::vector<std::pair<std::string, std::string>> own, changed;
  for (const Kernel& kernel : module.kernels) {
    own.emplace_back(kernel.name, kernel.text);
    changed.emplace_back(kernel.name, kernel.text + kHardTail);
  }
  const auto same = SpliceModule(module, own);
  if (!same || *same != module.text) failures.push_back("own sources change the module");

  const auto spliced = SpliceModule(module, changed);
  if (!spliced) {
    failures.push_back("splicing: " + spliced.error().ToString());
    return;
  }
  if (const auto status = CheckOutsideEqual(module, *spliced, Names(module)); !status) {
    failures.push_back("outside: " + status.error().ToString());
  }
  if (!module.kernels.empty() && CheckOutsideEqual(module, *spliced, {})) {
    failures.push_back("a changed source of a kernel that isn't replaced is not caught");
  }
  const auto again = ReadModule(*spliced, "spliced");
  for (size_t i = 0; again && i < changed.size(); ++i) {
    if (again->kernels[i].text != changed[i].second) failures.push_back("a source is not kept");
  }
}

void CheckChangesAreCaught(const Module& module, Json& failures) {
  const auto names = Names(module);
  // One digit of the first assert is outside every kernel.
  std::string text = module.text;
  const size_t at = text.find("args.clear()");
  text[at == std::string::npos ? 0 : at] = 'b';
  if (CheckOutsideEqual(module, text, names)) failures.push_back("a changed byte is not caught");
  if (!module.externs.empty()) {
    const Span span = module.externs.front().span;
    text = module.text;
    text.replace(span.begin, span.size(), "None");
    if (CheckOutsideEqual(module, text, names)) {
      failures.push_back("a dropped library call is not caught");
    }
  }
}

// The compiler's own text, built as a replacement in some configuration, must
// still be the compiler's text.
void CheckBuilding(const Module& module, Json& sources, Json& failures) {
  for (const Kernel& kernel : module.kernels) {
    if (RefusalOf(module, kernel)) continue;
    ReplacementStep step;
    step.kernel_text = KernelText(kernel);
    step.config.constexprs = {{"XBLOCK", 64}, {"YBLOCK", 8}, {"ZBLOCK", 1}, {"R0_BLOCK", 128}};
    const auto source = BuildSource(kernel, step);
    if (!source) {
      failures.push_back("building: " + source.error().ToString());
      continue;
    }
    const auto again = ReadKernelSource(*source, kernel.name);
    if (!again || again->entry != kernel.entry + "__kopt" ||
        *again->triton_meta != *kernel.triton_meta ||
        *again->inductor_meta != *kernel.inductor_meta) {
      failures.push_back("a built source isn't the kernel's: " + kernel.name);
    }
    sources[kernel.name] = *source;
  }
}

Json Report(const std::string& path) {
  Json report = {{"file", path}};
  const auto text = ReadFile(path);
  const auto module =
      text ? ReadModule(*text, path) : Result<Module>(std::unexpected(text.error()));
  if (!module) {
    report["error"] = module.error().ToString();
    return report;
  }
  report["module"] = ToJson(*module);
  Json failures = Json::array(), refusals = Json::array(), sources = Json::object();
  for (const Refusal& refusal : Refusals(*module)) {
    refusals.push_back(
        {{"kernel", refusal.kernel}, {"code", refusal.code}, {"message", refusal.message}});
  }
  CheckSplicing(*module, failures);
  CheckChangesAreCaught(*module, failures);
  CheckBuilding(*module, sources, failures);
  report["refusals"] = std::move(refusals);
  report["sources"] = std::move(sources);
  report["failures"] = std::move(failures);
  return report;
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: inspect_corpus FOLDER, a folder of generated modules\n");
    return 2;
  }
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    const std::string path = entry.path().string();
    if (path.ends_with(".py") || path.ends_with(".py.txt")) paths.push_back(path);
  }
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    std::puts(kernelopt::DumpJson(kernelopt::Report(path)).c_str());
  }
  return 0;
}
