// How a Python worker of the package is started, and what its hello says.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "proc/framed_child.h"

namespace kernelopt {

/// `python -m module` with `python_path` first in PYTHONPATH (empty = the package
/// is installed), out of reach of the user's own KERNELOPT_* settings: a worker
/// must see the compiler's kernels, whatever pack the user's shell loads.
Command PythonCommand(const std::string& python, const std::string& module,
                      const std::string& python_path);

/// The oldest torch that is supported.
inline constexpr int kMinTorchMajor = 2;
inline constexpr int kMinTorchMinor = 9;

/// What is wrong with a hello or its failure, as the user meets it. Errors:
/// kEnvironment "torch_missing" (no Python, no package, no torch or triton),
/// "torch_too_old", "python_unusable" (it prints, or never begins); else the
/// child's own error.
Result<Json> CheckHello(Result<Json> hello, const std::string& python);

}  // namespace kernelopt
