// How to launch a compiled kernel: all that is needed beside the cubin.
//
// The compile worker fills it from what the installed Triton reports, so that
// no C++ depends on a Triton version: parameter order, the trailing scratch
// pointers (one in triton 3.4, two from 3.5), threads, shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kernelopt {

struct LaunchParameter {
  enum class Kind { kPointer, kInt, kFloat, kScratch };
  Kind kind = Kind::kPointer;
  int size = 8;       ///< bytes
  int argument = -1;  ///< index into the kernel's argument list; -1 for scratch
  /// kScratch: bytes a CTA; the buffer has grid x num_ctas x this many. 0 = null.
  int64_t scratch_bytes = 0;
  int64_t scratch_alignment = 1;
};

struct LaunchRecord {
  std::string entry;  ///< symbol in the cubin
  std::vector<LaunchParameter> parameters;
  int threads = 128;  ///< a CTA
  int num_ctas = 1;   ///< CTAs a cluster
  std::array<int, 3> cluster = {1, 1, 1};
  int64_t shared_bytes = 0;  ///< dynamic shared memory
  bool cooperative = false;
};

Json ToJson(const LaunchRecord& record);
Result<LaunchRecord> LaunchRecordFromJson(const Json& json);

}  // namespace kernelopt
