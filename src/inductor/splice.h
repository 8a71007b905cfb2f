// Building the source of a replacement, and putting it into a module.
//
// The one piece of code that makes a kernel's source, for the judge and for
// the user's process: imports, triton_meta (signature, divisibility, fp
// fusion, ftz, device) and inductor_meta are the live source's own bytes; only
// the function and the configuration are the replacement's. The jitted
// function is called NAME__kopt with NAME = NAME__kopt beside it, so that
// profiles show it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "device/replacement.h"
#include "inductor/module.h"

namespace kernelopt {

/// The kernel text of the compiler's own kernel: its functions (helpers and
/// entry) without imports and heuristics decorator, as a replacement carries it.
/// Empty for a kernel with a `problem`.
std::string KernelText(const Kernel& kernel);

/// The source to compile for one drop_in step. Constexprs of the configuration
/// that are no parameters of the kernel (XBLOCK where it is fixed to 1, R0_BLOCK
/// of a persistent reduction) are left out. Errors: kInternal "not_drop_in"
/// (own grid, cooperative); kUsage "bad_kernel_text" for anything but
/// @triton.jit functions, "entry_mismatch" when the text's entry has another
/// name or other parameters than the kernel, "missing_constexpr"; those of
/// Tree::Parse.
Result<std::string> BuildSource(const Kernel& live, const ReplacementStep& step);

/// The module with the sources of some kernels replaced (kernel name ->
/// source); all other bytes equal. A kernel's own text gives its own bytes.
/// Errors: kUsage "no_such_kernel".
Result<std::string> SpliceModule(const Module& module,
                                 const std::vector<std::pair<std::string, std::string>>& sources);

/// Checks that two modules are equal outside the given kernels' source spans
/// and that their extern calls and launches are the same. Error: kInternal
/// "outside_changed" with the first differing byte.
Status CheckOutsideEqual(const Module& original, const std::string& spliced,
                         const std::vector<std::string>& replaced);

/// Grid of a launch: the kernel's grid_type over numels (argument values by
/// name: xnumel, ynumel, ...) and the configuration's blocks. Errors: kUsage
/// "unsupported_grid" by name, "missing_numel", "bad_block", and
/// "grid_too_large" for more programs than CUDA can launch.
Result<std::array<int64_t, 3>> ComputeGrid(const Kernel& kernel, const LaunchConfig& config,
                                           const std::map<std::string, int64_t>& numels);

}  // namespace kernelopt
