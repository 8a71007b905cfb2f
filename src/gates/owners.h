// Programs that watch who touches which element (ttir/owner.h), at a call site.
#pragma once

#include <vector>

#include "device/judge.h"
#include "gates/sites.h"
#include "workers/compile.h"

namespace kernelopt {

/// CheckJob::owners of a kernel as compiled in `config`; none where the site has no
/// storage that is loaded and written, or one program alone. Errors: kUsage
/// "not_analysable", "unreadable_ttir", those of Compiler.
Result<std::vector<Program>> OwnersAt(Compiler& compiler, int compute_capability,
                                      const Kernel& kernel, const LaunchConfig& config,
                                      const CompileOutput& compiled, const BuiltSite& site);

}  // namespace kernelopt
