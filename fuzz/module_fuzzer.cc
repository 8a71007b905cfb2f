// Any bytes: reading a generated module, its keys, refusals and splices must
// return, and a module that is read re-assembles byte for byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "inductor/module.h"
#include "inductor/refusal.h"
#include "inductor/splice.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)kernelopt::ReadKernelSource(text, "fuzz");
  const auto module = kernelopt::ReadModule(text, "fuzz");
  if (!module) return 0;
  (void)kernelopt::Refusals(*module);
  std::vector<std::pair<std::string, std::string>> own;
  std::vector<std::string> names;
  for (const kernelopt::Kernel& kernel : module->kernels) {
    if (module->FindKernel(kernel.name) != &kernel) return 0;  // a name twice: not spliced
    own.emplace_back(kernel.name, kernel.text);
    names.push_back(kernel.name);
    kernelopt::ReplacementStep step;
    step.kernel_text = kernelopt::KernelText(kernel);
    (void)kernelopt::BuildSource(kernel, step);
    (void)kernelopt::ComputeGrid(kernel, step.config, {{"xnumel", 100}, {"ynumel", 3}});
  }
  const auto spliced = kernelopt::SpliceModule(*module, own);
  if (spliced && (*spliced != text || !kernelopt::CheckOutsideEqual(*module, *spliced, names))) {
    std::abort();
  }
  return 0;
}
