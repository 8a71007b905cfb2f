// Writes a pack with one kernel, for tests of the commands that read packs.
//
//   make_pack MODULE.py OUT.kopt TEXT      TEXT: good | import | call
#include <cstdio>
#include <string>

#include "base/file.h"
#include "inductor/module.h"
#include "inductor/splice.h"
#include "pack/pack.h"

namespace {

kernelopt::Status MakePack(const std::string& module_path, const std::string& out,
                           const std::string& kind) {
  using namespace kernelopt;  // NOLINT(google-build-using-namespace): one function
  Module module = KOPT_TRY(ReadModule(KOPT_TRY(ReadFile(module_path)), module_path));
  const Kernel& live = module.kernels.at(0);
  Pack pack;
  pack.kernelopt_version = "0.1.0";
  pack.torch = "2.11.0";
  pack.triton = "3.6.0";
  pack.python = "3.11.2";
  pack.gpu = {"NVIDIA H200", 90, 132, ""};
  pack.model_file = "model.py";
  pack.model_sha256 = std::string(64, '0');
  PackVariant variant;
  variant.name = variant.mode = "default";
  variant.modules = {module.key};
  pack.variants.push_back(variant);

  PackKernel kernel;
  kernel.name = live.name;
  kernel.replacement.kernel_key = live.key;
  kernel.replacement.origin = "configuration";
  kernel.replacement.change = "launched with XBLOCK=256";
  ReplacementStep step;
  step.kernel_text = KernelText(live);
  step.config.constexprs = {{"XBLOCK", 256}};
  if (kind == "import") step.kernel_text = "import os\n" + step.kernel_text;
  if (kind == "call") {
    step.kernel_text += "\n    open('/tmp/kernelopt_refused', 'w')\n";
  }
  kernel.replacement.steps.push_back(step);
  kernel.modules = {module.key};
  kernel.cubin = "not a cubin";
  kernel.binary_hash = std::string(64, 'a');
  kernel.record.entry = live.name;
  kernel.label = "bitwise";
  pack.kernels.push_back(kernel);
  return WritePack(pack, out, PackMode::kReplace);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  kernelopt::Status status = MakePack(argv[1], argv[2], argv[3]);
  if (!status) std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  return status ? 0 : 1;
}
