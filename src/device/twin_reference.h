// What a compiler's kernel computes at a call site, exactly: its float64 twin
// (ttir/promote.h), run on the same storages.
//
// The twin stores to float64 storages of its own in place of the site's written
// floats, and reads them there too, so that what a kernel reads back is not
// rounded. Each float output gets its exact values, and its conditioning: the RMS
// change an ulp over runs whose float inputs move by ulps at random, which in
// float64 nothing rounds away.
#pragma once

#include <map>
#include <memory>

#include "device/kernel_runtime.h"
#include "device/site_memory.h"

namespace kernelopt {

class TwinReference {
 public:
  /// Allocates 20 bytes an element of each written float storage. Errors:
  /// out_of_memory, and those of KernelRuntime::Load.
  static Result<std::unique_ptr<TwinReference>> Create(KernelRuntime& runtime, const Program& twin,
                                                       const Site& site);
  ~TwinReference();
  TwinReference(const TwinReference&) = delete;
  TwinReference& operator=(const TwinReference&) = delete;

  /// Runs the twin on `data`, then `perturbations` times on perturbed data, whose
  /// widest float type is `perturbed`. `memory` is of the same site and is left in
  /// some state of its data. Errors: those of a launch.
  Status Run(SiteMemory& memory, const DataSet& data, int perturbations, DType perturbed);

  /// A double and a float an element of a written float storage; 0 for others.
  DevicePointer values(int storage) const;
  DevicePointer conditioning(int storage) const;

 private:
  TwinReference(KernelRuntime& runtime, const Site& site) : runtime_(runtime), site_(site) {}

  struct Output {
    int64_t count = 0;
    Allocation values;
    Allocation perturbed;
    Allocation conditioning;
  };
  /// One run; the results lie in `values` or `perturbed` of every output.
  Status RunOnce(SiteMemory& memory, const DataSet& data, int perturbation,
                 Allocation Output::* to);

  KernelRuntime& runtime_;
  const Site site_;
  int kernel_ = -1;
  std::map<int, Output> outputs_;  ///< by storage
};

}  // namespace kernelopt
