// From a recorded launch to a site that the judge can rebuild.
//
// A site has the exact storages, aliasing and scalars of one launch. The role
// of a storage comes from the compiler's TTIR, joined over all slots that
// share it: never loaded = poison, loaded = data, zero-filled by the program
// just before = zeros. What can't be rebuilt exactly is refused by reason.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/judge.h"
#include "device/replacement.h"
#include "profile/estimate.h"
#include "program/program.h"
#include "ttir/roles.h"
#include "workers/compile.h"

namespace kernelopt {

struct BuiltSite {
  CallSite where;
  Site site;                                ///< what the judge gets
  std::map<std::string, int64_t> numels;    ///< integer arguments by name
  std::vector<int> touched;                 ///< for TimeJob: indices into site.storages
  LaunchConfig compiler_config;             ///< as recorded
  std::array<int64_t, 3> grid = {1, 1, 1};  ///< as recorded
  std::string binary_hash;                  ///< of the compiler's kernel as loaded, or empty
  double device_us = 0;                     ///< mean device time of the recorded launch
  double floor_us = 0;                      ///< profile's floor; set by the caller, 0 = unknown
};

/// A candidate beside the compiler's kernel, both compiled.
struct KernelPair {
  const Kernel* kernel = nullptr;
  LaunchConfig baseline_config, candidate_config;
  const CompileOutput* baseline = nullptr;
  const CompileOutput* candidate = nullptr;
};

/// `uses`: UsesByArgument of the compiler's TTIR. Errors, all kUsage: "atomics",
/// "unsupported_dtype", "mixed_dtypes", "unknown_integer_domain",
/// "unsupported_argument", "argument_count", "unknown_storage", "outside_storage".
Result<BuiltSite> BuildSite(const Capture& capture, const CallSite& where, const Kernel& kernel,
                            const std::vector<PointerUse>& uses);

/// Indices into the kernel's arguments of what TTIR has parameters for, in order.
std::vector<int> ArgumentsOfParameters(const Kernel& kernel);

/// Spreads PointerUses over the kernel's full argument list: constexpr
/// arguments, which TTIR has no parameter for, get an empty entry. Error:
/// kUsage "argument_count".
Result<std::vector<PointerUse>> UsesByArgument(const Kernel& kernel,
                                               const std::vector<PointerUse>& uses);

/// What to compile for one step of a replacement of `kernel`. Errors: those of BuildSource.
Result<CompileRequest> RequestFor(const Kernel& kernel, const ReplacementStep& step,
                                  int compute_capability);

/// What to compile to get the compiler's own binary of a kernel: its source as
/// the compiler wrote it, since a device assert holds its line number.
CompileRequest BaselineRequest(const Kernel& kernel, const LaunchConfig& config,
                               const std::string& expected_hash, int compute_capability);

/// The compiled kernel as it would be launched at a site.
Result<Program> ProgramAt(const Kernel& kernel, const LaunchConfig& config,
                          const CompileOutput& compiled, const BuiltSite& site);

}  // namespace kernelopt
