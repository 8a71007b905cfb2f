#include "gates/twin.h"

#include <fmt/format.h>

#include "base/file.h"
#include "device/element_code.h"
#include "inductor/module.h"
#include "ttir/promote.h"

namespace kernelopt {

std::vector<Result<CompileOutput>> CompileTtir(Compiler& compiler, const Kernel& kernel,
                                               const LaunchConfig& config, int compute_capability,
                                               const std::vector<std::string>& texts) {
  std::vector<CompileRequest> requests;
  for (const std::string& text : texts) {
    CompileRequest& request = requests.emplace_back();
    request.source = text;
    request.is_ttir = true;
    request.kernel_name = kernel.name;
    request.config = config;
    request.compute_capability = compute_capability;
  }
  auto results = compiler.CompileAll(requests, {});
  // The judge counts constants among the arguments, as the kernel does.
  const std::vector<int> arguments = ArgumentsOfParameters(kernel);
  for (Result<CompileOutput>& result : results) {
    if (!result) continue;
    for (LaunchParameter& parameter : result->record.parameters) {
      if (parameter.kind == LaunchParameter::Kind::kScratch) continue;
      if (parameter.argument < 0 || parameter.argument >= static_cast<int>(arguments.size())) {
        result = Fail(ErrorKind::kUsage, "compile_error",
                      fmt::format("its binary takes argument {} of {}", parameter.argument,
                                  arguments.size()));
        break;
      }
      parameter.argument = arguments[static_cast<size_t>(parameter.argument)];
    }
  }
  return results;
}

Result<CompileOutput> TwinMaker::Make(const std::set<int>& written) {
  if (auto known = made_.find(written); known != made_.end()) return known->second;
  const auto no_twin = [&](const std::string& why) {
    return Fail(ErrorKind::kUsage, "no_twin",
                fmt::format("{} has no float64 twin to be judged against: {}", kernel_.name, why));
  };
  const std::string text = KOPT_TRY(ReadFile(baseline_.ttir_path));
  const TtirModule ttir = KOPT_TRY(ReadTtir(text, kernel_.name + ".ttir"));
  const auto twin = PromoteToFloat64(ttir, written);
  if (!twin) return no_twin(twin.error().message);
  auto compiled = CompileTtir(compiler_, kernel_, config_, compute_capability_, {twin->text}).at(0);
  if (!compiled && compiled.error().code == "interrupted") return compiled;
  if (!compiled) return no_twin(compiled.error().message);
  return made_.emplace(written, std::move(*compiled)).first->second;
}

std::set<int> ParametersOf(const Kernel& kernel, const Site& site,
                           const std::function<bool(const StorageSpec&)>& wanted) {
  std::set<int> parameters;
  const std::vector<int> arguments = ArgumentsOfParameters(kernel);
  for (size_t p = 0; p < arguments.size(); ++p) {
    const auto index = static_cast<size_t>(arguments[p]);
    if (index >= site.arguments.size()) break;
    const ArgumentSpec& argument = site.arguments[index];
    if (argument.kind != ArgumentSpec::Kind::kStorage) continue;
    if (wanted(site.storages.at(static_cast<size_t>(argument.storage)))) {
      parameters.insert(static_cast<int>(p));
    }
  }
  return parameters;
}

Result<Program> TwinMaker::At(const BuiltSite& site) {
  const std::set<int> written = ParametersOf(kernel_, site.site, [](const StorageSpec& storage) {
    return storage.written && KoptIsFloat(static_cast<int>(storage.dtype));
  });
  return ProgramAt(kernel_, config_, KOPT_TRY(Make(written)), site);
}

}  // namespace kernelopt
