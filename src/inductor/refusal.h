// Which kernels of a module are left as the compiler made them, and why.
//
//   for (const Refusal& refusal : Refusals(module)) Print(refusal.message);
//
// This is the refuse list as far as the text of a module tells; aliasing and
// graph capture are known only from a recording. Codes:
//
//   unreadable_source    the source isn't a generated kernel as we know it
//   user_written         from the user's own Triton kernel
//   template, combo, foreach, cooperative, split_scan, unsupported_kind
//                        the decorator's or the grid's kind
//   not_cuda             compiled for another device
//   other_use            named outside of launches (multi_kernel), or never launched
//   symbolic_sizes       a size is known only when it runs
//   scalar_argument      another scalar argument, whose value may change
//   random_numbers, atomics, waits_for_programs, fp8, complex, unsupported_type
//   inline_assembly
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inductor/module.h"

namespace kernelopt {

struct Refusal {
  std::string kernel;
  std::string code;     ///< from the list above
  std::string message;  ///< one sentence
};

/// Empty for a kernel that may be replaced.
std::optional<Refusal> RefusalOf(const Module& module, const Kernel& kernel);

/// One entry for each kernel that is left alone, in the module's order.
std::vector<Refusal> Refusals(const Module& module);

}  // namespace kernelopt
