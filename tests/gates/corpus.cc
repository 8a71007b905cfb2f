#include "corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "gates/static_gate.h"
#include "inductor/module.h"
#include "inductor/splice.h"
#include "pipeline/locate.h"
#include "pipeline/optimize.h"
#include "pipeline/try_file.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;

/// What gate 2 can say of a candidate; everything else is gate 1's.
const std::set<std::string> kOfGate2 = {"ok",
                                        "wrong_value",
                                        "wrong_integer",
                                        "wrong_nonfinite",
                                        "wrote_outside",
                                        "changed_input",
                                        "not_written",
                                        "not_deterministic",
                                        "crashed",
                                        "hung",
                                        "race"};

/// The value of a comment line "# NAME: value" at the top of a file, or "".
std::string HeaderOf(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line) && line.starts_with('#');) {
    std::string start = "# " + name + ": ";
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return "";
}

/// Says a candidate's verdict unless it has a rejection already.
void Say(Item* item, Verdict verdict) {
  if (auto evidence = ParseJson(verdict.evidence, "evidence"); !verdict.accepted) {
    item->static_codes.insert(verdict.reason);
    if (evidence && evidence->contains("findings")) {
      for (const Json& finding : (*evidence)["findings"]) {
        item->static_codes.insert(finding.value("code", ""));
      }
    }
  }
  if (item->verdict.accepted) item->verdict = std::move(verdict);
}

}  // namespace

bool Item::IsOfGate2() const {
  return std::ranges::all_of(expected, [](const auto& e) { return kOfGate2.contains(e); });
}

Result<Item> ReadItem(const std::string& path, const std::string& kind) {
  Item item;
  item.file = fmt::format("{}/{}", kind, fs::path(path).stem().string());
  item.text = KOPT_TRY(ReadFile(path));
  item.kernel = HeaderOf(item.text, "Kernel");
  std::istringstream codes(HeaderOf(item.text, "Expect"));
  for (std::string code; codes >> code;) {
    if (code != "|") item.expected.push_back(code);
  }
  const bool accepts = std::ranges::find(item.expected, "ok") != item.expected.end();
  if (item.expected.empty() || (kind == "good") != accepts) {
    return Fail(ErrorKind::kUsage, "bad_header", "its line '# Expect: ' does not fit its folder",
                path);
  }
  return item;
}

Result<std::vector<Item>> ReadItems(const std::string& folder, const std::string& only) {
  std::vector<Item> items;
  for (const std::string kind : {"bad", "good"}) {
    for (const auto& entry : fs::directory_iterator(folder + "/" + kind)) {
      if (entry.path().extension() != ".py") continue;
      if (fmt::format("{}/{}", kind, entry.path().stem().string()).find(only) == std::string::npos)
        continue;
      items.push_back(KOPT_TRY(ReadItem(entry.path().string(), kind)));
    }
  }
  std::ranges::sort(items, {}, &Item::file);
  return items;
}

Result<std::unique_ptr<CompilePool>> MakeCompiler(int workers) {
  CompilePoolOptions options;
  options.python = KOPT_TRY(FindPython(""));
  const std::string cache = KOPT_TRY(CacheFolder());
  options.python_path = KOPT_TRY(PackageFolder(ProgramPath(), cache));
  options.cache_folder = cache + "/compile";
  options.workers = workers;
  return std::make_unique<CompilePool>(std::move(options));
}

Status Corpus::Open(const std::string& folder) {
  extraction_ = KOPT_TRY(Extract(folder + "/capture", compiler_, [](size_t, size_t) {}));
  if (judge_ != nullptr) device_ = KOPT_TRY(judge_->Facts());
  if (device_.compute_capability == 0) device_ = DeviceOfRecord(extraction_.capture);
  return {};
}

/// Finds the kernel and reads the candidate's configuration.
Status Corpus::Place(Item* item) {
  for (const ExtractedKernel& kernel : extraction_.kernels) {
    if (kernel.work.name != item->kernel) continue;
    if (!kernel.refused.empty()) {
      return Fail(ErrorKind::kInternal, kernel.refused, kernel.why, item->kernel);
    }
    item->subject = &kernel.subject;
  }
  if (item->subject == nullptr) {
    return Fail(ErrorKind::kUsage, "bad_header",
                fmt::format("the capture has no kernel '{}'", item->kernel), item->file);
  }
  auto candidates = KOPT_TRY(ReadCandidates(item->text, item->file + ".py", *item->subject));
  item->replacement = std::move(candidates.front());
  if (!baselines_.contains(item->kernel)) {
    baselines_[item->kernel] =
        KOPT_TRY(CompileBaseline(compiler_, *item->subject, device_.compute_capability));
  }
  return {};
}

KernelPair Corpus::PairOf(const Item& item) const {
  return {.kernel = item.subject->kernel,
          .baseline_config = item.subject->sites.front().compiler_config,
          .candidate_config = item.replacement.steps.front().config,
          .baseline = &baselines_.at(item.kernel),
          .candidate = &item.compiled};
}

Status Corpus::Static(std::vector<Item>* items, bool all) {
  std::vector<CompileRequest> requests;
  std::vector<Item*> of;
  for (Item& item : *items) {
    KOPT_CHECK_OK(Place(&item));
    const SearchSubject& subject = *item.subject;
    Say(&item, JudgeText(item.replacement, *subject.kernel, extraction_.capture.triton));
    if (!item.verdict.accepted && !all) continue;
    const ReplacementStep& step = item.replacement.steps.front();
    auto request = RequestFor(*subject.kernel, step, device_.compute_capability);
    if (!request) {
      Say(&item, Reject(Gate::kStatic, request.error().code, request.error().ToString()));
      continue;
    }
    request->time_limit_ms = kCompileLimitMs;
    requests.push_back(std::move(*request));
    of.push_back(&item);
  }
  auto outputs = compiler_.CompileAll(requests, [](size_t) {});
  for (size_t i = 0; i < outputs.size(); ++i) {
    Item& item = *of[i];
    if (!outputs[i] && outputs[i].error().kind == ErrorKind::kEnvironment) {
      return std::unexpected(outputs[i].error());
    }
    if (!outputs[i]) {
      Say(&item, CompileFailure(outputs[i].error()));
      continue;
    }
    item.compiled = std::move(*outputs[i]);
    Say(&item, JudgeBinary(PairOf(item), item.subject->sites, device_));
  }
  return {};
}

TwinMaker& Corpus::TwinsOf(const Item& item) {
  auto& twins = twins_[item.kernel];
  if (twins == nullptr) {
    const KernelPair pair = PairOf(item);
    twins = std::make_unique<TwinMaker>(*pair.kernel, item.subject->sites.front().compiler_config,
                                        *pair.baseline, device_.compute_capability, twin_compiler_);
  }
  return *twins;
}

Verdict Corpus::Screen(const Item& item, const KernelRule& rule) {
  return ScreenKernel(*judge_, PairOf(item), TwinsOf(item), item.subject->sites, rule);
}

Verdict Corpus::Gate2(const Item& item, const std::set<std::string>& without) {
  KernelRule rule;
  rule.time_limit_ms = kRunLimitMs;
  rule.without = without;
  Verdict verdict = Screen(item, rule);
  if (!verdict.accepted) return verdict;
  return CertifyKernel(*judge_, PairOf(item), TwinsOf(item), item.subject->sites, rule);
}

}  // namespace kernelopt
