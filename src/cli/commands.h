// One function a command of the command line: plain arguments in, a Status
// out; the exit code is the kind of its error, or what Output was told.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"
#include "pipeline/options.h"

namespace kernelopt {

/// Exit code of a command whose answer is no: a candidate was rejected.
inline constexpr int kExitRejected = 6;

/// What every command that starts Python is told.
struct CommonArguments {
  std::string python;  ///< --python, or empty
};

Status Inspect(Output& output, const std::string& module);
Status EstimateModel(Output& output, const CommonArguments& common, const RunOptions& options,
                     const std::string& folder);
Status Optimize(Output& output, const CommonArguments& common, const RunOptions& options,
                const std::string& folder);
/// `model`: of a run on a recording, to go on with on a GPU; or empty.
Status Resume(Output& output, const CommonArguments& common, const std::string& run,
              const std::string& model);
Status Show(Output& output, const std::string& run, const std::string& kernel);
Status Report(Output& output, const std::string& run);
Status Replay(Output& output, const CommonArguments& common, const std::string& run,
              const std::string& verdict);
Status Try(Output& output, const CommonArguments& common, const std::string& run,
           const std::string& kernel, const std::string& candidate);
Status Verify(Output& output, const CommonArguments& common, const std::string& pack,
              const std::string& model, const std::string& entry, bool quick);
Status Doctor(Output& output, const CommonArguments& common);
Status ResolvePack(Output& output, const std::string& pack, const std::string& module);
Status CheckPackCommand(Output& output, const std::string& pack);

}  // namespace kernelopt
