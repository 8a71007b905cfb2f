// Commands that only read files: inspect, resolve, check-pack.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/plural.h"
#include "cli/commands.h"
#include "inductor/module.h"
#include "inductor/refusal.h"
#include "pack/pack.h"
#include "pack/resolve.h"

namespace kernelopt {
namespace {

/// {"x": 4096, "r0_": 32} -> "x=4096 r0_=32"
std::string Sizes(const Json& size_hints) {
  std::string text;
  if (!size_hints.is_object()) return text;
  for (const auto& [name, value] : size_hints.items()) {
    if (!text.empty()) text += " ";
    text += fmt::format("{}={}", name, DumpJson(value));
  }
  return text;
}

std::string Describe(const Module& module, const std::map<std::string, std::string>& refusals) {
  std::map<std::string, size_t> launches, externs;
  size_t name_width = 6, size_width = 5, kind_width = 4;
  for (const Launch& launch : module.launches) ++launches[launch.kernel];
  for (const ExternCall& call : module.externs) ++externs[call.target];
  for (const Kernel& kernel : module.kernels) {
    name_width = std::max(name_width, kernel.name.size());
    size_width = std::max(size_width, Sizes(*kernel.size_hints).size());
    kind_width = std::max(kind_width, kernel.decorator.size());
  }
  std::string text = fmt::format(
      "module {}{}: {}, {}, {}\n", module.key.substr(0, 16),
      module.phase.empty() ? "" : " (" + module.phase + ")",
      Plural(module.kernels.size(), "kernel"),
      module.launches.size() == 1 ? "1 launch" : fmt::format("{} launches", module.launches.size()),
      Plural(module.externs.size(), "library call"));
  if (!module.kernels.empty()) {
    text += fmt::format("\n{:<{}}  {:<{}}  {:<{}}  launches\n", "kernel", name_width, "kind",
                        kind_width, "size", size_width);
  }
  for (const Kernel& kernel : module.kernels) {
    auto refusal = refusals.find(kernel.name);
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}{}\n", kernel.name, name_width, kernel.decorator,
                        kind_width, Sizes(*kernel.size_hints), size_width, launches[kernel.name],
                        refusal == refusals.end() ? "" : "  left alone: " + refusal->second);
  }
  if (!externs.empty()) text += "\nlibrary calls\n";
  for (const auto& [target, count] : externs) text += fmt::format("{:>4} x {}\n", count, target);
  return text;
}

}  // namespace

Status Inspect(Output& output, const std::string& path) {
  std::string text = KOPT_TRY(ReadFile(path));
  Module module = KOPT_TRY(ReadModule(std::move(text), path));
  std::map<std::string, std::string> refusals;
  Json left_alone = Json::array();
  for (const Refusal& refusal : Refusals(module)) {
    refusals[refusal.kernel] = refusal.code;
    left_alone.push_back(
        {{"kernel", refusal.kernel}, {"code", refusal.code}, {"message", refusal.message}});
  }
  Json data = ToJson(module);
  data["left_alone"] = std::move(left_alone);
  output.Print(Describe(module, refusals), DumpJson(data));
  return {};
}

Status ResolvePack(Output& output, const std::string& pack_path, const std::string& module_path) {
  Pack pack = KOPT_TRY(CheckPack(pack_path));
  Json answer = ResolveModule(pack, KOPT_TRY(ReadFile(module_path)));
  std::string human;
  if (answer.value("matched", false)) {
    for (const Json& kernel : answer["kernels"]) {
      bool swapped = kernel["source"].is_string();
      human += fmt::format("{}: {}\n", kernel.value("name", ""),
                           swapped ? "swapped" : kernel.value("reason", ""));
    }
  } else {
    human = "nothing is swapped: " + answer.value("reason", "") + "\n";
  }
  output.Print(human, DumpJson(answer));
  return {};
}

Status CheckPackCommand(Output& output, const std::string& path) {
  Json answer = CheckPackAnswer(path);
  if (output.json()) {
    // The answer is the error too: the loader reads it, whatever the exit code.
    output.Print("", DumpJson(answer));
    return {};
  }
  Pack pack = KOPT_TRY(CheckPack(path));
  output.Print(fmt::format("{}: whole and unchanged, {}{}", path,
                           Plural(pack.kernels.size(), "kernel"), pack.preview ? ", preview" : ""),
               "");
  return {};
}

}  // namespace kernelopt
