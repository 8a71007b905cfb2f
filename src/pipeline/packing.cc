#include "pipeline/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/plural.h"
#include "pipeline/stitching.h"
#include "report/report.h"

namespace kernelopt {
namespace {

/// The reason that stands for most of the kernels, and how many.
std::pair<std::string, size_t> MostFrequent(const std::vector<std::string>& reasons) {
  std::map<std::string, size_t> counts;
  for (const std::string& reason : reasons) ++counts[reason];
  std::pair<std::string, size_t> most;
  for (const auto& [reason, count] : counts) {
    if (count > most.second) most = {reason, count};
  }
  return most;
}

/// Eager beats every compiled mode that was captured.
std::string EagerNote(const Run& run) {
  double eager = 0, compiled = 0;
  for (const Variant& variant : run.extraction.capture.variants) {
    if (variant.train || variant.eager_us <= 0 || variant.compiled_us <= 0) continue;
    eager = eager > 0 ? std::min(eager, variant.eager_us) : variant.eager_us;
    compiled = compiled > 0 ? std::min(compiled, variant.compiled_us) : variant.compiled_us;
  }
  for (const VariantResult& result : run.variants) {
    if (result.improved()) compiled = std::min(compiled, result.ours_us);
  }
  if (eager <= 0 || eager >= compiled) return "";
  return fmt::format("compile loses to eager: {:.1f} us without torch.compile, {:.1f} us with it",
                     eager, compiled);
}

std::string ImprovedMessage(const Run& run) {
  std::string message;
  double best_ours = 0, best_compiled = 0;
  for (size_t v = 0; v < run.variants.size(); ++v) {
    const VariantResult& result = run.variants[v];
    const Variant& variant = run.extraction.capture.variants[v];
    double compiled = result.compiled_us > 0 ? result.compiled_us : variant.compiled_us;
    double ours = result.improved() ? result.ours_us : compiled;
    if (!variant.train) {
      best_compiled = best_compiled > 0 ? std::min(best_compiled, compiled) : compiled;
      best_ours = best_ours > 0 ? std::min(best_ours, ours) : ours;
    }
    if (!message.empty()) message += "; ";
    if (!result.improved()) {
      message += fmt::format("{} kept ({})", variant.Name(), result.stitch.reason);
      continue;
    }
    size_t replaced = 0;
    for (const std::string& key : result.stitch.accepted) {
      replaced += !run.extraction.ModuleKeys(variant, key).empty();
    }
    message += fmt::format("{} {:.3f}x ({:.3f} to {:.3f}) with {} replaced", variant.Name(),
                           result.confirmed->median, result.confirmed->lower,
                           result.confirmed->upper, Plural(replaced, "kernel"));
  }
  if (run.variants.size() > 1 && best_ours > 0) {
    message += fmt::format("; fastest of ours over fastest of the compiler's {:.3f}x",
                           best_compiled / best_ours);
  }
  return message;
}

Outcome Kept(std::string reason, std::string message) {
  return {"kept", std::move(reason), std::move(message), ""};
}

Outcome DecideKept(const Run& run) {
  const Capture& capture = run.extraction.capture;
  size_t graphs = 0;
  int breaks = 0;
  double extern_us = 0, triton_us = 0;
  for (const Variant& variant : capture.variants) {
    graphs += variant.graphs.size();
    breaks += variant.graph_breaks;
  }
  for (const ModelEstimate& estimate : run.estimates) {
    extern_us += estimate.extern_us;
    triton_us += estimate.triton_us;
  }
  if (graphs == 0) {
    return Kept("no_graph", fmt::format("torch.compile made no graph of this model ({}), so there "
                                        "is no generated kernel to work on",
                                        Plural(breaks, "graph break")));
  }
  if (run.extraction.kernels.empty()) {
    return Kept("no_triton_kernel",
                "torch.compile generated no Triton kernel for this model: all of its work is in "
                "library calls, which stay as they are");
  }
  std::vector<std::string> refused;
  for (const ExtractedKernel& kernel : run.extraction.kernels) {
    if (!kernel.refused.empty()) refused.push_back(kernel.refused);
  }
  if (refused.size() == run.extraction.kernels.size()) {
    auto [reason, count] = MostFrequent(refused);
    return Kept("all_refused", fmt::format("none of the {} can be judged exactly (most often: {})",
                                           Plural(refused.size(), "kernel"), reason));
  }
  if (run.order.empty()) {
    double at_most = 1, share = 0;
    for (const ModelEstimate& estimate : run.estimates) {
      at_most = std::max(at_most, estimate.at_most);
      if (estimate.model_us > 0) share = std::max(share, estimate.triton_us / estimate.model_us);
    }
    return Kept("nothing_worthwhile",
                fmt::format("{:.1f} % of this model's time is in generated kernels, and at the "
                            "speed of memory they would make it {:.3f}x at most",
                            100 * share, at_most));
  }
  std::vector<std::string> search, gates;
  size_t certified = 0;
  for (const auto& [key, result] : run.results) {
    if (!result.outcome.winner) {
      search.push_back(result.outcome.reason);
    } else if (!result.certified()) {
      gates.push_back(result.certificate.verdict.reason);
    }
    certified += result.certified();
  }
  if (certified == 0 && gates.empty()) {
    auto [reason, count] = MostFrequent(search);
    return Kept("no_faster_kernel", fmt::format("no faster kernel was found for any of the {} "
                                                "worth working on (most often: {})",
                                                Plural(run.order.size(), "kernel"), reason));
  }
  if (certified == 0) {
    auto [reason, count] = MostFrequent(gates);
    return Kept("not_certified",
                fmt::format("{} faster, but none could be proven on all data (most often: {})",
                            Plural(gates.size(), "kernel"), reason));
  }
  for (const VariantResult& result : run.variants) {
    const StitchOutcome& stitch = result.stitch;
    const Verdict& verdict = !stitch.correctness.accepted ? stitch.correctness : stitch.performance;
    std::string message = stitch.reason == "not_confirmed"
                              ? "the model was faster, but not again when it was confirmed"
                          : verdict.message.empty() ? "the model with its replacements was not "
                                                      "proven better"
                                                    : verdict.message;
    return Kept(stitch.reason, std::move(message));
  }
  return Kept("nothing_to_stitch", "there was nothing to put into the model");
}

/// One launch's mean of a time over all launches of one call.
double OfOneLaunch(const Run& run, const std::string& key, double all_us) {
  const ExtractedKernel* kernel = run.extraction.Find(key);
  return kernel == nullptr || kernel->work.sites.empty()
             ? all_us
             : all_us / static_cast<double>(kernel->work.sites.size());
}

/// Why a kernel's replacement did not stay, if it did not.
Json KernelFact(const Run& run, const ExtractedKernel& kernel) {
  const std::string& key = kernel.work.key;
  Json fact;
  if (!kernel.refused.empty()) {
    return {{"outcome", "refused"}, {"reason", kernel.refused}, {"message", kernel.why}};
  }
  if (run.estimates.empty()) {
    return {{"outcome", "kept"},
            {"reason", "not_measured"},
            {"message", "nothing was measured: that needs a GPU"}};
  }
  auto found = run.results.find(key);
  if (found == run.results.end() && std::ranges::find(run.order, key) != run.order.end()) {
    return {{"outcome", "kept"},
            {"reason", "not_searched"},
            {"message", "the search has not come to it yet"}};
  }
  if (found == run.results.end()) {
    return {{"outcome", "kept"},
            {"reason", "not_worthwhile"},
            {"message", "what it could gain is under the least that is worth working on"}};
  }
  const KernelResult& result = found->second;
  fact["outcome"] = "kept";
  fact["reason"] = result.outcome.reason;
  fact["message"] = result.outcome.message;
  if (!result.outcome.winner) return fact;
  const Winner& winner = *result.outcome.winner;
  fact["replacement"] = winner.replacement.Id();
  fact["compiler_us"] = OfOneLaunch(run, key, winner.baseline_us);
  fact["ours_us"] = OfOneLaunch(run, key, winner.time_us);
  fact["config_before"] = winner.baseline_config.ToString();
  fact["config_after"] = winner.replacement.steps.at(0).config.ToString();
  fact["label"] = result.certificate.label;
  fact["origin"] = winner.replacement.origin;
  fact["change"] = winner.replacement.change;
  if (!result.certified()) {
    fact["reason"] = result.certificate.verdict.reason;
    fact["message"] = result.certificate.verdict.message;
    return fact;
  }
  for (const VariantResult& variant : run.variants) {
    if (variant.improved() &&
        std::ranges::find(variant.stitch.accepted, key) != variant.stitch.accepted.end()) {
      fact["outcome"] = "improved";
      fact["reason"] = "";
      fact["message"] = winner.replacement.change;
      return fact;
    }
    for (const DroppedPiece& dropped : variant.stitch.dropped) {
      if (dropped.key != key) continue;
      fact["reason"] = dropped.verdict.reason;
      fact["message"] = dropped.verdict.message;
    }
  }
  if (fact["reason"] == result.outcome.reason && !run.variants.empty()) {
    fact["reason"] = run.variants[0].stitch.reason;
    fact["message"] = "proven alone, but the model with it was not";
  }
  return fact;
}

Json KernelDetail(const Run& run, const ExtractedKernel& kernel) {
  Json detail = {{"launches", kernel.work.sites.size()},
                 {"decorator", kernel.work.kernel->decorator}};
  for (const ModelEstimate& estimate : run.estimates) {
    for (const KernelEstimate& item : estimate.kernels) {
      if (item.key != kernel.work.key || item.launches == 0) continue;
      detail["compiler_us"] = item.time_us / item.launches;
      detail["floor_us"] = item.floor_us / item.launches;
      detail["gain_us"] = item.gain_us;
      return detail;
    }
  }
  double recorded_us = 0;
  for (const BuiltSite& site : kernel.subject.sites) recorded_us += site.device_us;
  if (recorded_us > 0) detail["compiler_us"] = OfOneLaunch(run, kernel.work.key, recorded_us);
  return detail;
}

Json VariantFact(const Run& run, size_t v) {
  const Variant& variant = run.extraction.capture.variants[v];
  Json fact = {{"mode", variant.mode},           {"train", variant.train},
               {"input_set", variant.input_set}, {"compiled_us", variant.compiled_us},
               {"eager_us", variant.eager_us},   {"accepted", false}};
  if (v >= run.variants.size()) return fact;
  const VariantResult& result = run.variants[v];
  fact["accepted"] = result.improved();
  fact["reason"] = result.stitch.reason;
  fact["message"] = result.stitch.correctness.accepted ? result.stitch.performance.message
                                                       : result.stitch.correctness.message;
  if (result.confirmed) {
    fact["compiled_us"] = result.compiled_us;
    fact["ours_us"] = result.ours_us;
    fact["speedup"] = {{"median", result.confirmed->median},
                       {"lo", result.confirmed->lower},
                       {"hi", result.confirmed->upper}};
  }
  return fact;
}

}  // namespace

Outcome DecideOutcome(const Run& run) {
  bool improved = std::ranges::any_of(
      run.variants, [](const VariantResult& variant) { return variant.improved(); });
  Outcome outcome = improved ? Outcome{"improved", "", ImprovedMessage(run), ""} : DecideKept(run);
  outcome.note = EagerNote(run);
  return outcome;
}

Status RecordFacts(Environment& environment, const Run& run, const Outcome& outcome) {
  const Capture& capture = run.extraction.capture;
  Batch batch;
  auto fact = [&](const std::string& key, const Json& value) {
    batch.facts.emplace_back(key, DumpJson(value));
  };
  fact("model",
       {{"file", capture.model_file}, {"sha256", capture.model_sha256}, {"entry", capture.entry}});
  fact("gpu", {{"name", run.device.name},
               {"uuid", run.device.uuid},
               {"compute_capability", run.device.compute_capability},
               {"sm_count", run.device.sm_count},
               {"mig", run.device.mig}});
  fact("versions", {{"kernelopt", environment.version},
                    {"torch", capture.torch},
                    {"triton", capture.triton},
                    {"python", capture.python},
                    {"driver", run.device.driver}});
  fact("policy", run.options.policy);
  fact("preview", outcome.result == "improved");  // what a pack is stamped with
  double at_most = 1, device_us = 0, floor_us = 0;
  for (size_t v = 0; v < run.estimates.size(); ++v) {
    if (v > 0 && run.estimates[v].at_most <= at_most) continue;
    at_most = run.estimates[v].at_most;
    device_us = capture.variants[v].device_us;
    floor_us = device_us - run.estimates[v].gain_us;
  }
  if (!run.estimates.empty())
    fact("estimate", {{"at_most", at_most}, {"device_us", device_us}, {"floor_us", floor_us}});
  fact("outcome", {{"result", outcome.result},
                   {"reason", outcome.reason},
                   {"message", outcome.message},
                   {"note", outcome.note},
                   {"pack", run.pack}});
  for (size_t v = 0; v < capture.variants.size(); ++v) {
    fact("variant/" + capture.variants[v].Name(), VariantFact(run, v));
  }
  for (const ExtractedKernel& kernel : run.extraction.kernels) {
    batch.kernels.push_back({.key = kernel.work.key,
                             .name = kernel.work.name,
                             .detail = DumpJson(KernelDetail(run, kernel))});
    fact("kernel/" + kernel.work.key, KernelFact(run, kernel));
  }
  return environment.store.Record(std::move(batch));
}

Result<StepResult> WritePackAndReport(Environment& environment, Run& run) {
  Outcome outcome = DecideOutcome(run);
  std::vector<size_t> improved;
  std::vector<std::string> keys;
  for (size_t v = 0; v < run.variants.size(); ++v) {
    if (!run.variants[v].improved()) continue;
    improved.push_back(v);
    for (const std::string& key : run.variants[v].stitch.accepted) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  if (!improved.empty()) run.pack = run.paths.folder + "/" + ModelStem(run.options) + ".kopt";
  KOPT_CHECK_OK(RecordFacts(environment, run, outcome));
  std::string page = ReportPage(KOPT_TRY(ReportData(environment.store)));
  KOPT_CHECK_OK(WriteFileAtomic(run.paths.Report(), page));
  if (improved.empty()) return StepResult{"no pack; report.html says why"};

  // A group's replacements stay in its own modules, so packs of groups join.
  Pack pack = KOPT_TRY(BuildPack(run, environment.version, {}, improved));
  for (const std::vector<size_t>& group : GroupVariants(run.extraction)) {
    const VariantResult& result = run.variants[group[0]];
    if (!result.improved()) continue;
    Pack part = KOPT_TRY(BuildPack(run, environment.version, result.stitch.accepted, group));
    for (PackKernel& kernel : part.kernels) {
      auto same = std::ranges::find_if(pack.kernels, [&](const PackKernel& other) {
        return other.binary_hash == kernel.binary_hash &&
               other.replacement.Id() == kernel.replacement.Id();
      });
      if (same == pack.kernels.end()) {
        pack.kernels.push_back(std::move(kernel));
      } else {
        same->modules.insert(same->modules.end(), kernel.modules.begin(), kernel.modules.end());
      }
    }
  }
  for (size_t i = 0; i < improved.size(); ++i) {
    const VariantResult& result = run.variants[improved[i]];
    pack.variants[i].speedup =
        PackSpeedup{result.confirmed->median, result.confirmed->lower, result.confirmed->upper};
    std::string name = fmt::format("variant{}", i);
    pack.evidence["gate3-" + name + ".json"] = result.stitch.correctness.evidence;
    pack.evidence["gate4-" + name + ".json"] = result.stitch.performance.evidence;
  }
  for (const std::string& key : keys) {
    pack.evidence["gate2-" + key.substr(0, 16) + ".json"] =
        run.results.at(key).certificate.verdict.evidence;
  }
  pack.report_html = page;
  KOPT_CHECK_OK(WritePack(pack, run.pack, PackMode::kReplace));
  return StepResult{fmt::format("{} with {}", run.pack, Plural(pack.kernels.size(), "kernel"))};
}

std::string ClosingLines(const Run& run, const Outcome& outcome) {
  std::string text =
      fmt::format("\n{}: {}\n", outcome.result == "not_measured" ? "not measured" : outcome.result,
                  outcome.message);
  if (!outcome.note.empty()) text += outcome.note + "\n";
  if (!run.pack.empty()) {
    text += fmt::format(
        "use it:  import kernelopt; kernelopt.load(\"{0}\", allow_preview=True)\n"
        "    or:  KERNELOPT_PACK={0} KERNELOPT_ALLOW_PREVIEW=1 python YOUR_PROGRAM.py\n",
        run.pack);
  }
  text += fmt::format("report:  {}", run.paths.Report());
  return text;
}

}  // namespace kernelopt
