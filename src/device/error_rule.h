// The error rule over many elements: is a candidate as exact as the compiler's
// kernel? Pure numbers; runner.h collects them (docs/gates.md, docs/numerics.md).
#pragma once

#include <cstdint>
#include <string>

#include "device/element_code.h"
#include "device/judge.h"

namespace kernelopt {

/// z of the elements of one storage over the data sets of one family, or of all.
struct ErrorPool {
  double max_z = 0, sum_z2 = 0;          ///< of the candidate
  double own_max_z = 0, own_sum_z2 = 0;  ///< of the compiler's kernel; 0 without a twin
  int64_t elements = 0;
  int last_set = -1;

  void Add(const KoptStats& stats, int set);
  void Add(const ErrorPool& pool);
  double Rms() const;
  double OwnRms() const;
};

/// Empty when the rule holds, else what was found and what was wanted.
///
/// With a twin: RMS z at most `rms_factor` x the compiler's + `rms_slack`, or
/// `rms_floor`; the largest at most `max_factor` x its + `max_slack`, or `max_floor`;
/// and no error where the compiler's kernel has none.
/// Without: RMS z against the compiler's kernel at most `max_rms`.
/// `exact`: false leaves out the last (CheckJob::without).
std::string Violation(const ErrorPool& pool, const ErrorRule& rule, bool has_twin,
                      bool exact = true);

}  // namespace kernelopt
