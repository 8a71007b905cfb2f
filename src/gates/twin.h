// The float64 twin of a compiler's kernel (ttir/promote.h) as a program that the
// judge can launch at the kernel's call sites.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "device/judge.h"
#include "gates/sites.h"
#include "program/program.h"
#include "workers/compile.h"

namespace kernelopt {

/// TTIR texts with the parameters of `kernel`, compiled to be launched in its place: the
/// records count arguments as the kernel does. One result a text; errors: those of
/// Compiler, and "compile_error" for a binary with other parameters.
std::vector<Result<CompileOutput>> CompileTtir(Compiler& compiler, const Kernel& kernel,
                                               const LaunchConfig& config, int compute_capability,
                                               const std::vector<std::string>& texts);

/// Parameters of the kernel's TTIR whose storages at the site `wanted` chooses.
std::set<int> ParametersOf(const Kernel& kernel, const Site& site,
                           const std::function<bool(const StorageSpec&)>& wanted);

class TwinMaker {
 public:
  /// `baseline`: the compiler's kernel as compiled in `config`, with its TTIR.
  TwinMaker(const Kernel& kernel, const LaunchConfig& config, const CompileOutput& baseline,
            int compute_capability, Compiler& compiler)
      : kernel_(kernel),
        config_(config),
        baseline_(baseline),
        compute_capability_(compute_capability),
        compiler_(compiler) {}

  /// The twin at a site; sites that share storages alike share one binary. Errors:
  /// kUsage "no_twin" (an operation has no float64 form, or the twin does not
  /// compile: the message says which), "unreadable_ttir", "interrupted".
  Result<Program> At(const BuiltSite& site);

  Compiler& compiler() const { return compiler_; }
  int compute_capability() const { return compute_capability_; }

 private:
  Result<CompileOutput> Make(const std::set<int>& written);

  const Kernel& kernel_;
  const LaunchConfig& config_;
  const CompileOutput& baseline_;
  int compute_capability_;
  Compiler& compiler_;
  std::map<std::set<int>, CompileOutput> made_;  ///< by TTIR parameters of written floats
};

}  // namespace kernelopt
