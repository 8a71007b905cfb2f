#include "pipeline/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "gates/kernel_gate.h"
#include "gates/static_gate.h"
#include "pipeline/gpu_lock.h"
#include "pipeline/kernels.h"
#include "pipeline/optimize.h"
#include "pipeline/records.h"
#include "pipeline/shadow_search.h"
#include "pipeline/stitching.h"

namespace kernelopt {
namespace {

Result<VerdictRecord> FindByName(const Store& store, const std::string& name) {
  std::vector<std::string> kernels = {""};
  for (const KernelRecord& kernel : KOPT_TRY(store.Kernels())) kernels.push_back(kernel.key);
  std::vector<VerdictRecord> found;
  for (const std::string& kernel : kernels) {
    for (VerdictRecord& record : KOPT_TRY(store.AllVerdicts(kernel))) {
      if (!name.empty() && VerdictName(record.key).starts_with(name)) {
        found.push_back(std::move(record));
      }
    }
  }
  if (found.empty()) {
    return Fail(ErrorKind::kUsage, "no_such_verdict",
                fmt::format("has no verdict '{}'; `kernelopt show {} KERNEL` lists them", name,
                            store.Folder()),
                store.Folder());
  }
  bool one = std::ranges::all_of(
      found, [&](const VerdictRecord& record) { return record.key == found[0].key; });
  if (!one) {
    return Fail(
        ErrorKind::kUsage, "ambiguous_verdict",
        fmt::format("has several verdicts that begin with '{}'; give more of the name", name),
        store.Folder());
  }
  return found.back();
}

/// The lines of a kernel's text that use an argument: where a stored value comes from.
std::string LinesWith(const std::string& text, const std::string& argument) {
  std::string lines;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    ++number;
    size_t at = line.find("tl.store(" + argument);
    if (at != std::string_view::npos)
      lines += fmt::format("  line {}: {}\n", number, line.substr(at));
    begin = end + 1;
  }
  return lines;
}

/// The worst element of a failed check, and the source lines that store to it.
std::string DescribeElement(const Json& evidence, const SearchSubject& subject,
                            const Replacement& replacement) {
  auto element = evidence.find("element");
  if (element == evidence.end()) return "";
  int storage = element->value("storage", -1);
  std::string text =
      fmt::format("worst element: storage {}, index {}, value {}, reference {}, scale {}\n",
                  storage, element->value("index", int64_t{-1}), element->value("value", ""),
                  element->value("reference", ""), element->value("scale", ""));
  std::string site_name = evidence.value("site", "");
  for (const BuiltSite& site : subject.sites) {
    if (site.site.name != site_name) continue;
    for (size_t i = 0; i < site.site.arguments.size(); ++i) {
      if (site.site.arguments[i].kind != ArgumentSpec::Kind::kStorage ||
          site.site.arguments[i].storage != storage) {
        continue;
      }
      const std::string& name = subject.kernel->arguments[i].name;
      text += fmt::format("argument {}\n", name);
      text += LinesWith(replacement.steps.at(0).kernel_text, name);
    }
  }
  return text;
}

struct Again {
  Verdict verdict;
  std::string detail;  ///< more lines for a person
};

Result<Again> ReplayKernel(Environment& environment, Run& run, const VerdictRecord& record) {
  auto stored = KOPT_TRY(environment.store.FindReplacement(record.key.subject));
  if (!stored) {
    return Fail(ErrorKind::kUsage, "no_such_verdict", "the replacement it is about is not stored",
                run.paths.folder);
  }
  Replacement replacement =
      KOPT_TRY(ReplacementFromJson(KOPT_TRY(ParseJson(stored->body, "a recorded replacement"))));
  KOPT_TRY(ExtractStep(environment, run, run.paths.Capture()));
  const ExtractedKernel* kernel = run.extraction.Find(record.kernel);
  if (kernel == nullptr || kernel->subject.sites.empty()) {
    return Fail(ErrorKind::kUsage, "no_such_verdict",
                "the kernel that it is about is not in the capture any more", run.paths.folder);
  }
  int compute_capability = run.extraction.capture.compute_capability;
  Verdict text = JudgeText(replacement, *kernel->work.kernel, run.extraction.capture.triton);
  if (!text.accepted) return Again{std::move(text), ""};
  Replacement own = BaselineReplacement(kernel->subject);
  CompileOutput baseline =
      KOPT_TRY(CompileBaseline(environment.compiler, kernel->subject, compute_capability));
  auto candidate = CompileReplacement(environment.compiler, *kernel->work.kernel, replacement,
                                      compute_capability);
  if (!candidate) return Again{CompileFailure(candidate.error()), ""};
  KernelPair pair;
  pair.kernel = kernel->work.kernel;
  pair.baseline_config = own.steps.at(0).config;
  pair.candidate_config = replacement.steps.at(0).config;
  pair.baseline = &baseline;
  pair.candidate = &*candidate;
  const std::vector<BuiltSite>& sites = kernel->subject.sites;
  if (record.key.gate == static_cast<int>(Gate::kStatic)) {
    return Again{JudgeBinary(pair, sites, run.device), ""};
  }
  KernelRule rule = RuleFor(run.options.policy);
  TwinMaker twins(*pair.kernel, pair.baseline_config, baseline, compute_capability,
                  environment.compiler);
  if (record.key.stage == kShadowStage) return Again{ScreenOnShadow(pair, twins, sites, rule), ""};
  Verdict verdict = record.key.stage == "certify"
                        ? CertifyKernel(*environment.judge, pair, twins, sites, rule)
                        : ScreenKernel(*environment.judge, pair, twins, sites, rule);
  auto evidence = ParseJson(verdict.evidence, "evidence");
  std::string detail =
      evidence ? DescribeElement(*evidence, kernel->subject, replacement) : std::string();
  return Again{std::move(verdict), std::move(detail)};
}

std::string OneLine(const std::string& what, const Verdict& verdict) {
  return fmt::format("{}: gate {} {}: {}\n", what, static_cast<int>(verdict.gate),
                     verdict.accepted ? "accepted" : "rejected (" + verdict.reason + ")",
                     verdict.message);
}

}  // namespace

Result<ReplayedVerdict> ReplayVerdict(Environment& environment, Run& run, const std::string& name) {
  VerdictRecord record = KOPT_TRY(FindByName(environment.store, name));
  Verdict before = FromRecord(record);
  bool needs_gpu =
      record.key.gate != static_cast<int>(Gate::kStatic) && record.key.stage != kShadowStage;
  if (needs_gpu && environment.judge == nullptr) {
    return Fail(ErrorKind::kEnvironment, "no_gpu",
                "a verdict of gates 2 to 4 is only replayed from a run on a model, with a GPU");
  }
  GpuLock lock;
  if (needs_gpu) {
    KOPT_CHECK_OK(PrepareRun(environment, run));
    KOPT_CHECK_OK(PrepareJudge(environment, run));
    lock =
        KOPT_TRY(GpuLock::Take(run.device.uuid, environment.cache, nullptr, environment.cancelled));
  } else {
    run.device = DeviceOfRecord(KOPT_TRY(ReadCapture(run.paths.Capture())));
  }
  Again again;
  if (record.kernel.empty()) {
    again.verdict = KOPT_TRY(ReplaySet(environment, run, record.key));
  } else {
    again = KOPT_TRY(ReplayKernel(environment, run, record));
  }
  ReplayedVerdict replayed;
  replayed.text = OneLine("recorded", before) + OneLine("now", again.verdict) + again.detail;
  replayed.data = Json{{"verdict", VerdictName(record.key)},
                       {"recorded", VerdictToJson(before)},
                       {"now", VerdictToJson(again.verdict)}};
  return replayed;
}

}  // namespace kernelopt
