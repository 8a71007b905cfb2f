// Launches that gpu_jobs.py made: jobs.json beside NUMBER.ttir and NUMBER.cubin.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "device/judge.h"
#include "ttir/ttir.h"

namespace kernelopt {

struct ShadowJob {
  std::string name;
  Site site;  ///< roles as the TTIR has them; storages that are only stored to are poison
  Program program;
  TtirModule module;
  /// Parameters of the text whose storage some parameter writes, and holds floats.
  std::set<int> written_floats;
};

/// One entry of jobs.json in `folder`. Errors: a file that is missing or can't be read.
Result<ShadowJob> ReadShadowJob(const Json& json, const std::string& folder);

}  // namespace kernelopt
