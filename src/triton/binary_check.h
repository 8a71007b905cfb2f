// Gate 1 on what a kernel compiled to: TTIR, PTX and launch record, each held
// against the compiler's kernel under the policy `strict`.
#pragma once

#include <string_view>
#include <vector>

#include "device/judge.h"
#include "device/launch_record.h"
#include "triton/static_check.h"
#include "ttir/facts.h"

namespace kernelopt {

/// Codes: narrower_arithmetic, narrower_rounding, dot_precision, added_atomics,
/// added_assembly, added_library_function, added_math_function, volatile_access, added_hint,
/// unusual_operation, dropped_assert.
std::vector<StaticFinding> CompareTtir(const TtirFacts& candidate, const TtirFacts& baseline);

/// Codes: ptx_clock, ptx_special_register, ptx_sleep, ptx_trap, ptx_volatile,
/// ptx_inter_grid, ptx_atomic, ptx_call, ptx_reduced_precision. Lines are of the
/// candidate's PTX.
std::vector<StaticFinding> ComparePtx(std::string_view candidate, std::string_view baseline);

/// Codes: too_much_shared_memory, too_many_threads, unsupported_launch.
std::vector<StaticFinding> CheckLimits(const LaunchRecord& record, const DeviceFacts& device);

}  // namespace kernelopt
