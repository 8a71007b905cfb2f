// Is a pack still good for a model on this machine? `kernelopt verify`.
#pragma once

#include <string>
#include <vector>

#include "gates/performance_gate.h"
#include "pack/resolve.h"
#include "pipeline/environment.h"

namespace kernelopt {

struct VerifyRequest {
  std::string pack;
  ModelSpec model;
  bool quick = false;          ///< keys and binaries only
  std::string capture_folder;  ///< for a fresh capture
};

struct VariantVerification {
  std::string name;
  PerformanceEffect effect;  ///< measured now
  bool slower = false;       ///< the lower bound is not above 1 any more
};

struct PackVerification {
  std::vector<KernelComparison> kernels;
  std::vector<VariantVerification> variants;  ///< empty with `quick`
  /// Valid, or kOutdated "binary_changed", "key_gone", "slower_now".
  Status verdict;
};

/// Errors: those of CheckPack, MatchEnvironment, and of the model worker.
Result<PackVerification> VerifyPack(Environment& environment, const VerifyRequest& request);

}  // namespace kernelopt
