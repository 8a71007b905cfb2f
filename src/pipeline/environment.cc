#include "pipeline/environment.h"

#include <fmt/format.h>

namespace kernelopt {

std::string GpuId(const DeviceFacts& facts) {
  std::string id =
      fmt::format("{}, sm_{}, {} SMs", facts.name, facts.compute_capability, facts.sm_count);
  if (!facts.mig.empty()) id += ", MIG " + facts.mig;
  return id;
}

}  // namespace kernelopt
