// The power probe of gate 2: would the gate notice a wrong kernel here?
//
// Before a kernel's candidates are certified, faults planted in the compiler's own kernel
// (ttir/faults.h) are judged like candidates, at the smallest site. A fault that passes the
// error rule although it changes results, on all data and on more, says that nothing can be
// certified at this kernel.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "gates/kernel_gate.h"

namespace kernelopt {

struct ProbedFault {
  std::string name;     ///< Fault::name
  int source_line = 0;  ///< of the compiler's kernel
  /// caught      rejected: `reason`, on the data of `family`
  /// equivalent  the compiler's kernel again, by canonical TTIR or by binary
  /// silent      every byte equal on all data, and no proof that it had to be
  /// passed      results differ, and the rule lets them through
  /// unknown     did not compile, or the time ran out
  std::string outcome;
  std::string reason, family;
};

struct PowerReport {
  std::vector<ProbedFault> faults;

  int Count(const std::string& outcome) const;
  bool HasPassed() const { return Count("passed") > 0; }
  /// "power": {"caught": 5, ..., "faults": [...]} for a verdict's evidence.
  Json ToJson() const;
};

/// `baseline` is the compiler's kernel alone: its `candidate` is not looked at. A fault whose
/// turn comes after `seconds` of `clock` is `unknown`. Errors: those of the judge (out_of_memory,
/// ...), "interrupted", and "unreadable_ttir".
Result<PowerReport> ProbePower(Judge& judge, Compiler& compiler, int compute_capability,
                               const KernelPair& baseline, TwinMaker& twins,
                               const std::vector<BuiltSite>& sites, const KernelRule& rule,
                               const Clock& clock, double seconds);

}  // namespace kernelopt
