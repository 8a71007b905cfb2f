// What the rewrite rules make of a generated module, for tests/rules.
//
//   rules_tool MODULE.py      one JSON line a kernel:
//     {"kernel": NAME, "text": the compiler's, "findings": [{"rule": ..., "refusal": ...,
//      "texts": [{"name": ..., "change": ..., "source": ..., "configs": [...]}]}]}
//
// A text's source is what would be compiled; it and a configuration make a replacement.

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "inductor/module.h"
#include "inductor/splice.h"
#include "triton/rules/rule.h"

namespace kernelopt {
namespace {

Status PrintKernels(const std::string& path) {
  Module module = KOPT_TRY(ReadModule(KOPT_TRY(ReadFile(path)), path));
  for (const Kernel& kernel : module.kernels) {
    if (!kernel.problem.empty()) continue;
    Json findings = Json::array();
    LaunchConfig config;
    for (const KernelArgument& argument : kernel.arguments)
      if (argument.triton_type == "constexpr" && argument.name.ends_with("BLOCK"))
        config.constexprs[argument.name] = 64;
    for (const RuleFinding& finding : ApplyRules({kernel, config})) {
      Json texts = Json::array();
      for (const RuleText& text : finding.texts) {
        Json configs = Json::array();
        for (const LaunchConfig& one : text.configs) configs.push_back(ToJson(one));
        ReplacementStep step;
        step.kernel_text = text.text;
        step.config = text.configs.front();
        texts.push_back({{"name", text.name},
                         {"change", text.change},
                         {"text", text.text},
                         {"source", KOPT_TRY(BuildSource(kernel, step))},
                         {"configs", configs}});
      }
      findings.push_back({{"rule", finding.rule}, {"refusal", finding.refusal}, {"texts", texts}});
    }
    std::cout << Json{{"kernel", kernel.name}, {"text", KernelText(kernel)}, {"findings", findings}}
                     .dump()
              << "\n";
  }
  return {};
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: rules_tool MODULE.py\n";
    return 2;
  }
  if (auto status = kernelopt::PrintKernels(argv[1]); !status) {
    std::cerr << status.error().ToString() << "\n";
    return 1;
  }
  return 0;
}
