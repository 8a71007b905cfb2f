// All about one kernel of a run, for `kernelopt show RUN KERNEL`.
#pragma once

#include <string>

#include "base/json_value.h"
#include "base/result.h"
#include "store/store.h"

namespace kernelopt {

struct KernelStory {
  std::string text;
  JsonValue data;
};

/// `kernel`: a kernel's name or key, or the beginning of one; "model" for the
/// verdicts on the whole model. `report` is ReportData's answer. Errors: kUsage
/// "no_such_kernel", "ambiguous_kernel"; the store's.
Result<KernelStory> TellKernel(const Store& store, const Json& report, const std::string& kernel);

}  // namespace kernelopt
