#include "gates/static_gate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "gates/access_check.h"
#include "inductor/module.h"
#include "triton/binary_check.h"
#include "triton/rounding_check.h"
#include "triton/static_check.h"
#include "ttir/facts.h"

namespace kernelopt {
namespace {

Verdict FromFindings(const std::vector<StaticFinding>& findings, std::string accepted) {
  if (findings.empty()) return Accept(Gate::kStatic, std::move(accepted));
  Json list = Json::array();
  for (const StaticFinding& finding : findings) {
    list.push_back({{"code", finding.code},
                    {"message", finding.message},
                    {"line", finding.line},
                    {"column", finding.column}});
  }
  const StaticFinding& first = findings.front();
  std::string message = first.message;
  if (first.line > 0) message = fmt::format("{}:{}: {}", first.line, first.column, message);
  if (findings.size() > 1) message += fmt::format(" (and {} more)", findings.size() - 1);
  return Reject(Gate::kStatic, first.code, message, DumpJson({{"findings", list}}));
}

Result<TtirModule> TtirOf(const std::string& path) {
  std::string text = KOPT_TRY(ReadFile(path));
  return ReadTtir(text, path);
}

}  // namespace

Verdict JudgeText(const Replacement& replacement, const Kernel& live,
                  std::string_view triton_version) {
  if (replacement.form != ReplacementForm::kDropIn || replacement.steps.size() != 1 ||
      !replacement.workspaces.empty()) {
    return Reject(Gate::kStatic, "unsupported_form",
                  fmt::format("found a replacement of {} steps and {} workspaces, wanted a drop-in "
                              "of one step",
                              replacement.steps.size(), replacement.workspaces.size()));
  }
  const ReplacementStep& step = replacement.steps.front();
  if (step.cooperative || step.config.num_ctas != 1)
    return Reject(Gate::kStatic, "unsupported_form",
                  "cooperative launches and clusters can't be made from an unchanged call site");
  for (const std::string& expression : step.grid) {
    if (!expression.empty())
      return Reject(Gate::kStatic, "unsupported_form",
                    fmt::format("a grid of its own ('{}') can't be launched from an unchanged "
                                "call site",
                                expression));
  }
  return FromFindings(CheckKernelText(step.kernel_text, live, triton_version),
                      "the text uses only allowed names and statements");
}

Verdict JudgeBinary(const KernelPair& pair, const std::vector<BuiltSite>& sites,
                    const DeviceFacts& device) {
  const CompileOutput& candidate = *pair.candidate;
  const CompileOutput& baseline = *pair.baseline;
  auto read_failed = [](const Error& error) {
    return Reject(Gate::kStatic, error.code, error.ToString());
  };
  auto candidate_ttir = TtirOf(candidate.ttir_path);
  if (!candidate_ttir) return read_failed(candidate_ttir.error());
  auto baseline_ttir = TtirOf(baseline.ttir_path);
  if (!baseline_ttir) return read_failed(baseline_ttir.error());
  auto candidate_ptx = ReadFile(candidate.ptx_path);
  if (!candidate_ptx) return read_failed(candidate_ptx.error());
  auto baseline_ptx = ReadFile(baseline.ptx_path);
  if (!baseline_ptx) return read_failed(baseline_ptx.error());

  std::vector<StaticFinding> findings =
      CompareTtir(ReadFacts(*candidate_ttir), ReadFacts(*baseline_ttir));
  for (auto& more :
       {CompareRounding(*candidate_ttir, *baseline_ttir), ComparePtx(*candidate_ptx, *baseline_ptx),
        CheckLimits(candidate.record, device)})
    findings.insert(findings.end(), more.begin(), more.end());
  auto accesses = CheckAccesses(*candidate_ttir, *baseline_ttir, pair, sites);
  if (accesses) {
    findings.insert(findings.end(), accesses->begin(), accesses->end());
  } else {
    findings.push_back({accesses.error().code, accesses.error().ToString(), 0, 0});
  }
  return FromFindings(findings, "TTIR, PTX and limits are within the policy");
}

Verdict CompileFailure(const Error& error) {
  std::string reason = error.code == "compile_error" ? "compile_error" : "compile_" + error.code;
  return Reject(Gate::kStatic, reason, error.ToString());
}

}  // namespace kernelopt
