// Gate 1: may this replacement be compiled, and is what it compiled to within
// the policy? Text first, then TTIR, PTX and limits against the compiler's.
#pragma once

#include <string_view>

#include "device/judge.h"
#include "device/replacement.h"
#include "gates/sites.h"
#include "gates/verdict.h"
#include "workers/compile.h"

namespace kernelopt {

struct Kernel;  // inductor/module.h

/// The text alone. Evidence: the findings with line and column.
Verdict JudgeText(const Replacement& replacement, const Kernel& live,
                  std::string_view triton_version);

/// What it compiled to, launched at `sites`. Reads the TTIR and PTX files that both
/// outputs name.
Verdict JudgeBinary(const KernelPair& pair, const std::vector<BuiltSite>& sites,
                    const DeviceFacts& device);

/// A failed compile as a verdict: compile_error, compile_timeout, compile_died...
Verdict CompileFailure(const Error& error);

}  // namespace kernelopt
