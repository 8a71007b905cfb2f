#include "agents/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "gates/power_probe.h"
#include "gates/static_gate.h"

namespace kernelopt {
namespace {

/// For a kernel's power probe; most take one.
constexpr double kProbeSeconds = 10;

Verdict NotCertifiable(const PowerReport& power) {
  const auto passed = std::ranges::find(power.faults, "passed", &ProbedFault::outcome);
  return Reject(Gate::kKernel, "not_certifiable",
                fmt::format("the fault {} in line {}, planted in the compiler's kernel, passes the "
                            "error rule, so that nothing can be proved here",
                            passed->name, passed->source_line),
                DumpJson({{"power", power.ToJson()}}));
}

}  // namespace

Certificate CertifyWinner(const SearchSubject& subject, const Winner& winner, SearchTools tools,
                          const KernelRule& rule) {
  Certificate certificate;
  certificate.verdict = JudgeText(winner.replacement, *subject.kernel, tools.triton_version);
  if (!certificate.verdict.accepted) return certificate;
  KernelPair pair;
  pair.kernel = subject.kernel;
  pair.baseline_config = winner.baseline_config;
  pair.baseline = &winner.baseline;
  pair.candidate_config = winner.replacement.steps.front().config;
  pair.candidate = &winner.compiled;
  certificate.verdict = JudgeBinary(pair, subject.sites, tools.device);
  if (!certificate.verdict.accepted) return certificate;
  if (auto released = tools.judge.Release(); !released) {
    certificate.verdict = JudgeFailure(Gate::kKernel, released.error());
    return certificate;
  }
  TwinMaker twins(*subject.kernel, winner.baseline_config, winner.baseline,
                  tools.device.compute_capability, tools.compiler);
  // Under the policy `bitwise` a fault is either silent or caught.
  std::optional<PowerReport> power;
  if (!rule.error.bitwise) {
    auto probed = ProbePower(tools.judge, tools.compiler, tools.device.compute_capability, pair,
                             twins, subject.sites, rule, SystemClock(), kProbeSeconds);
    if (!probed) {
      certificate.verdict = JudgeFailure(Gate::kKernel, probed.error());
      return certificate;
    }
    power = std::move(*probed);
    if (power->HasPassed()) {
      certificate.verdict = NotCertifiable(*power);
      return certificate;
    }
  }
  certificate.verdict = CertifyKernel(tools.judge, pair, twins, subject.sites, rule);
  if (auto evidence = ParseJson(certificate.verdict.evidence, "evidence");
      power && evidence && evidence->is_object()) {
    (*evidence)["power"] = power->ToJson();
    certificate.verdict.evidence = DumpJson(*evidence);
  }
  if (certificate.verdict.accepted)
    certificate.label = IsBitwise(certificate.verdict) ? "bitwise" : "within rule";
  return certificate;
}

}  // namespace kernelopt
