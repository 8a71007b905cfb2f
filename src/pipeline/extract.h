// The step `extract`: from a capture to kernels that can be judged.
//
// Every generated module is read, launches are grouped by canonical kernel
// key, and the compiler's own kernel is compiled again, because its TTIR says
// what each pointer is used for. A kernel that can't be rebuilt exactly, or
// that is on the refuse list, is kept as the compiler made it, with a reason.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agents/search.h"
#include "inductor/module.h"
#include "profile/estimate.h"
#include "program/program.h"
#include "ttir/roles.h"
#include "workers/compile.h"

namespace kernelopt {

struct ExtractedKernel {
  KernelWork work;
  std::vector<PointerUse> uses;  ///< one an argument of the kernel
  SearchSubject subject;         ///< the sites to judge it at
  std::string refused;           ///< reason code; empty = may be worked on
  std::string why;               ///< one sentence
};

struct Extraction {
  Capture capture;
  std::map<std::string, Module> modules;  ///< by SHA-256 of the text; kernels point into it
  std::vector<ExtractedKernel> kernels;   ///< in order of appearance
  size_t launches = 0, externs = 0;       ///< events of all variants

  const ExtractedKernel* Find(const std::string& key) const;
  /// Keys of the modules of one variant in which a kernel occurs.
  std::vector<std::string> ModuleKeys(const Variant& variant, const std::string& key) const;
};

/// `done(n, of)` is called as kernels are compiled. Errors: those of
/// ReadCapture and ReadModule; kInterrupted; what the compile workers as a
/// whole fail with.
Result<Extraction> Extract(const std::string& capture_folder, Compiler& compiler,
                           const std::function<void(size_t, size_t)>& done);

/// Compiles one replacement of `kernel`.
Result<CompileOutput> CompileReplacement(Compiler& compiler, const Kernel& kernel,
                                         const Replacement& replacement, int compute_capability);

/// Compiles the compiler's own kernel as it ran at the subject's first site.
Result<CompileOutput> CompileBaseline(Compiler& compiler, const SearchSubject& subject,
                                      int compute_capability);

}  // namespace kernelopt
