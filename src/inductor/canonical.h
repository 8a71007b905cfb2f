// Canonical keys: by what a kernel or a module computes, never by its name.
//
// A kernel's key covers its functions (helpers too, the entry under one
// placeholder name), the decorator's kind, size_hints, of triton_meta the
// signature, constants, configs (divisibility) and the options that change code,
// of inductor_meta the mutated arguments and the grid. Device properties, names,
// file names, hints and autotuning flags don't enter.
//
// A module's key covers its code without comments, the tail (get_args,
// benchmark_compiled_module, __main__), the folders of included C++ headers,
// kernel names (each is its order of definition and its own key) and, in a
// module for one GPU, that GPU's index.
//
// Both are SHA-256 over a canonical text, in which layout, comments and
// docstrings are gone (syntax/tree.h).
#pragma once

#include <string>
#include <vector>

#include "inductor/kernel_source.h"
#include "inductor/module.h"
#include "syntax/tree.h"

namespace kernelopt {

std::string CanonicalKernelText(const KernelSource& source);
std::string CanonicalKernelKey(const KernelSource& source);

/// `tree` is the module's; `kernels` as read from it, with keys.
std::string CanonicalModuleText(const Tree& tree, const std::vector<Kernel>& kernels);
std::string CanonicalModuleKey(const Tree& tree, const std::vector<Kernel>& kernels);

}  // namespace kernelopt
