#include "gates/owners.h"

#include "base/file.h"
#include "gates/twin.h"
#include "ttir/owner.h"

namespace kernelopt {

Result<std::vector<Program>> OwnersAt(Compiler& compiler, int compute_capability,
                                      const Kernel& kernel, const LaunchConfig& config,
                                      const CompileOutput& compiled, const BuiltSite& site) {
  std::vector<Program> programs;
  const std::set<int> tracked = ParametersOf(kernel, site.site, [](const StorageSpec& storage) {
    return storage.written && storage.role != StorageRole::kPoison;
  });
  const Program own = KOPT_TRY(ProgramAt(kernel, config, compiled, site));
  if (tracked.empty() || own.grid == std::array<int64_t, 3>{1, 1, 1}) return programs;
  const std::string text = KOPT_TRY(ReadFile(compiled.ttir_path));
  const TtirModule module = KOPT_TRY(ReadTtir(text, kernel.name + ".ttir"));
  const OwnerTexts texts = KOPT_TRY(MakeOwnerTexts(module, tracked));
  for (auto& made :
       CompileTtir(compiler, kernel, config, compute_capability, {texts.mark, texts.check})) {
    const CompileOutput output = KOPT_TRY(std::move(made));
    programs.push_back(KOPT_TRY(ProgramAt(kernel, config, output, site)));
  }
  return programs;
}

}  // namespace kernelopt
