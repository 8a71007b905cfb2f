// Gate 2: does a replacement compute what the compiler's kernel computes, at
// every call site, on data made to tell them apart?
//
// Screening is cheap and rejects; only certification accepts a kernel.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "device/judge.h"
#include "gates/sites.h"
#include "gates/twin.h"
#include "gates/verdict.h"

namespace kernelopt {

struct KernelRule {
  ErrorRule error;
  int time_limit_ms = 20000;
  /// Checks that tests of the gates leave out: those of CheckJob::without, guard_pages,
  /// and names of data families.
  std::set<std::string> without;
};

/// The data sets of a screening: few, the ones that reject most.
std::vector<DataSet> ScreenData(const Site& site);

/// All families x seeds 0, 42, 1337 x raw and mapped into the envelope (where
/// one was observed), and the captured contents where there are some.
std::vector<DataSet> CertifyData(const Site& site);

/// The job that runs the pair at a site, with no data sets yet.
Result<CheckJob> MakeCheckJob(const KernelPair& pair, const BuiltSite& site,
                              const KernelRule& rule);

/// First site only, few data sets. The exact results come from the twin of the pair's
/// baseline; a kernel without one is rejected with its error's code, since nothing can
/// be certified for it. Evidence: what the judge showed.
Verdict ScreenKernel(Judge& judge, const KernelPair& pair, TwinMaker& twins,
                     const std::vector<BuiltSite>& sites, const KernelRule& rule);

/// Every site, all data, once with canaries and once with guard pages. The
/// verdict's message says "bitwise" or "within rule" when it accepts, and names
/// site, data set and element when it does not.
Verdict CertifyKernel(Judge& judge, const KernelPair& pair, TwinMaker& twins,
                      const std::vector<BuiltSite>& sites, const KernelRule& rule);

/// A judge's error as a verdict: not_verifiable_here, crashed, hung, judge_failed.
Verdict JudgeFailure(Gate gate, const Error& error);

/// True when the accepted verdict found every byte equal.
bool IsBitwise(const Verdict& verdict);

}  // namespace kernelopt
