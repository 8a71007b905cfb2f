// Kernels of a run by name, and all about one, for `kernelopt show RUN KERNEL`.
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

/// A kernel of the run by its name or key, or the beginning of one. Errors: kUsage
/// "no_such_kernel", "ambiguous_kernel"; the store's.
struct FoundKernel {
  std::string key, name;
};
Result<FoundKernel> FindKernel(const Store& store, const std::string& wanted);

/// `kernel`: as FindKernel takes it, or "model" for the verdicts on the whole
/// model. `report` is ReportData's answer. FindKernel's errors.
Result<KernelStory> TellKernel(const Store& store, const Json& report, const std::string& kernel);

}  // namespace kernelopt
