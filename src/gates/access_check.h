// Gate 1's look at memory: what a compiled candidate reads, and where its loads and
// stores go, at the call sites of the kernel that it would replace.
#pragma once

#include <vector>

#include "gates/sites.h"
#include "triton/static_check.h"
#include "ttir/ttir.h"

namespace kernelopt {

/// Codes: reads_output (it loads from a storage that the compiler's kernel never
/// reads: what lies there is of an earlier call, or is not yet written),
/// out_of_bounds (at some site a load or store is proven to leave its storage, and
/// none of the compiler's kernel does). What can't be told is not reported. Errors:
/// kUsage "not_analysable", "argument_count", and those of ComputeGrid.
Result<std::vector<StaticFinding>> CheckAccesses(const TtirModule& candidate,
                                                 const TtirModule& baseline, const KernelPair& pair,
                                                 const std::vector<BuiltSite>& sites);

}  // namespace kernelopt
