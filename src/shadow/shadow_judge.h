// The judge on the shadow device: gate 2's check without a GPU, as runner.h does it on
// one, and beyond it what the evaluator watches for.
//
//   ShadowJudge judge;
//   Result<CheckResult> result = judge.Check(job);   // programs need their ttir_path
//   judge.last().share ...                            // of the instances that ran
//
// Kernels that are small enough run whole. Of larger ones the same part of the grid is
// run of both kernels, as far as `work` allows: first, last, edges, others at random;
// where the grids are not multiples of each other axis by axis by powers of two, both
// must run whole or the job is "out_of_memory" (not verifiable here). A sample shows
// wrong values and what the program may not do. Elements that the candidate's sample left
// out of what the compiler's wrote count as not written where the range analysis proves
// that no other program writes them (missing_writes.h); what is written beside them does
// not show. It only rejects.
//
// What the evaluator finds in the candidate becomes the result's reason: wrote_outside,
// read_outside, read_unwritten, race, assertion, endless (waiting for each other as
// well). A finding in the compiler's kernel, or TTIR that is not evaluable, is an error
// "job_error". Speeds and times are errors: they need a GPU.
#pragma once

#include <optional>
#include <vector>

#include "device/judge.h"
#include "shadow/evaluator.h"

namespace kernelopt {

struct ShadowJudgeOptions {
  int64_t work = 20'000'000;  ///< lanes that one launch may compute when sampled
  /// Lanes up to which a launch runs whole where it can't be sampled.
  int64_t most_work = 2'000'000'000;
  uint64_t seed = 1;  ///< of the random instances
};

/// The same part of two grids, as instances of each.
struct ShadowPlan {
  std::vector<ShadowInstance> baseline, candidate;
  bool whole = false;  ///< all instances of both
};

/// Nothing where the grids don't fit together. At most `most` instances of the grid with
/// fewer.
std::optional<ShadowPlan> PlanInstances(const std::array<int64_t, 3>& baseline,
                                        const std::array<int64_t, 3>& candidate, int64_t most,
                                        uint64_t seed);

class ShadowJudge : public Judge {
 public:
  explicit ShadowJudge(ShadowJudgeOptions options = {}) : options_(options) {}

  /// About the last check.
  struct Summary {
    double share = 1;       ///< of the baseline's instances
    int64_t instances = 0;  ///< of the baseline, a launch
    int64_t compared = 0;   ///< elements, over all comparisons
    int64_t wanted = 0;     ///< elements that the baseline had written for them
    std::optional<ShadowFinding> finding;
  };
  const Summary& last() const { return last_; }

  Result<DeviceFacts> Facts() override;
  Result<DeviceSpeeds> Speeds() override;
  Result<CheckResult> Check(const CheckJob& job) override;
  Result<TimeResult> Time(const TimeJob& job) override;
  Status Release() override { return {}; }

 private:
  /// Lanes that the first instance computes.
  Result<int64_t> WorkOf(const CheckJob& job, const Program& program) const;

  ShadowJudgeOptions options_;
  Summary last_;
};

}  // namespace kernelopt
