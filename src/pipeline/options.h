// What the user asked of a run; kept in the run's folder, so that `resume`
// needs nothing but the folder.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "workers/model.h"

namespace kernelopt {

struct RunOptions {
  std::string model;      ///< absolute path of MODEL.py; empty with a recording
  std::string entry;      ///< "module:function" or empty
  std::string recording;  ///< absolute path of a recorded capture, or empty
  std::vector<std::string> modes = {"default"};
  bool train = false;             ///< also a training step of each mode
  double budget_s = 600;          ///< of the search
  double min_gain = 0.005;        ///< least median gain of the whole model
  std::string policy = "strict";  ///< strict | bitwise
  bool allow_weaker = false;      ///< accept where no float64 reference was possible

  /// One a mode, and one a mode with --train.
  std::vector<VariantSpec> Variants() const;
};

Json ToJson(const RunOptions& options);
Result<RunOptions> RunOptionsFromJson(const Json& json);

/// Checks what a command line can get wrong. Errors: kUsage "bad_option", "no_such_file".
Status CheckOptions(const RunOptions& options);

/// "default,reduce-overhead" -> modes. Error: kUsage "bad_option".
Result<std::vector<std::string>> ParseModes(const std::string& text);

}  // namespace kernelopt
