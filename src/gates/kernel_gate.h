// Gate 2: does a replacement compute what the compiler's kernel computes, at
// every call site, on data made to tell them apart?
//
// Screening is cheap and rejects; only certification accepts a kernel.
#pragma once

#include <vector>

#include "device/judge.h"
#include "gates/sites.h"
#include "gates/verdict.h"

namespace kernelopt {

/// Two compiled kernels with a site each launch of them is judged at.
struct KernelPair {
  const Kernel* kernel = nullptr;
  LaunchConfig baseline_config, candidate_config;
  const CompileOutput* baseline = nullptr;
  const CompileOutput* candidate = nullptr;
};

struct KernelRule {
  ErrorRule error;
  int time_limit_ms = 20000;
};

/// The data sets of a screening: few, the ones that reject most.
std::vector<DataSet> ScreenData(const Site& site);

/// All families x seeds 0, 42, 1337 x raw and mapped into the envelope (where
/// one was observed), and the captured contents where there are some.
std::vector<DataSet> CertifyData(const Site& site);

/// First site only, few data sets. Evidence: what the judge showed.
Verdict ScreenKernel(Judge& judge, const KernelPair& pair, const std::vector<BuiltSite>& sites,
                     const KernelRule& rule);

/// Every site, all data, once with canaries and once with guard pages. The
/// verdict's message says "bitwise" or "within rule" when it accepts, and names
/// site, data set and element when it does not.
Verdict CertifyKernel(Judge& judge, const KernelPair& pair, const std::vector<BuiltSite>& sites,
                      const KernelRule& rule);

/// A judge's error as a verdict: not_verifiable_here, crashed, hung, judge_failed.
Verdict JudgeFailure(Gate gate, const Error& error);

/// True when the accepted verdict found every byte equal.
bool IsBitwise(const Verdict& verdict);

}  // namespace kernelopt
