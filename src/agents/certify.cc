#include "agents/certify.h"

#include "gates/static_gate.h"

namespace kernelopt {

Certificate CertifyWinner(const SearchSubject& subject, const Winner& winner, SearchTools tools,
                          const KernelRule& rule) {
  Certificate certificate;
  certificate.verdict = JudgeText(winner.replacement, *subject.kernel, tools.triton_version);
  if (!certificate.verdict.accepted) return certificate;
  certificate.verdict = JudgeBinary(winner.compiled, winner.baseline, tools.device);
  if (!certificate.verdict.accepted) return certificate;
  if (auto released = tools.judge.Release(); !released) {
    certificate.verdict = JudgeFailure(Gate::kKernel, released.error());
    return certificate;
  }
  KernelPair pair;
  pair.kernel = subject.kernel;
  pair.baseline_config = winner.baseline_config;
  pair.baseline = &winner.baseline;
  pair.candidate_config = winner.replacement.steps.front().config;
  pair.candidate = &winner.compiled;
  certificate.verdict = CertifyKernel(tools.judge, pair, subject.sites, rule);
  if (certificate.verdict.accepted)
    certificate.label = IsBitwise(certificate.verdict) ? "bitwise" : "within rule";
  return certificate;
}

}  // namespace kernelopt
