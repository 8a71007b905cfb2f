#include "pipeline/records.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"

namespace kernelopt {
namespace {

/// Out of memory, a sick device, a worker that died: nothing was learned of
/// the subject, so it may be judged again.
bool IsFinal(const Verdict& verdict) {
  static const std::set<std::string> kOpen = {"not_verifiable_here", "judge_failed", "interrupted",
                                              "compile_died"};
  return verdict.accepted || !kOpen.contains(verdict.reason);
}

}  // namespace

VerdictKey KernelVerdictKey(const Run& run, const Replacement& replacement, Gate gate,
                            const std::string& stage, const std::string& site) {
  VerdictKey key;
  key.subject = replacement.Id();
  key.gate = static_cast<int>(gate);
  key.stage = stage;
  key.site = site;
  key.gpu = run.gpu_id;
  key.versions = run.versions;
  key.policy = run.options.policy;
  key.data_version = kDataVersion;
  return key;
}

VerdictKey SetVerdictKey(const Run& run, const std::string& set, Gate gate,
                         const std::string& variant) {
  VerdictKey key;
  key.subject = set;
  key.gate = static_cast<int>(gate);
  key.stage = "model";
  key.gpu = run.gpu_id;
  key.versions = run.versions;
  key.variant = variant;
  key.policy = run.options.policy + (run.options.allow_weaker ? "+weaker" : "");
  key.data_version = kDataVersion;
  return key;
}

VerdictRecord ToRecord(const Verdict& verdict, VerdictKey key, const std::string& kernel) {
  VerdictRecord record;
  record.key = std::move(key);
  record.kernel = kernel;
  record.accepted = verdict.accepted;
  record.final = IsFinal(verdict);
  record.reason = verdict.reason;
  record.message = verdict.message;
  record.evidence = verdict.evidence.empty() ? "{}" : verdict.evidence;
  return record;
}

Verdict FromRecord(const VerdictRecord& record) {
  return {static_cast<Gate>(record.key.gate), record.accepted, record.reason, record.message,
          record.evidence};
}

Json VerdictToJson(const Verdict& verdict) {
  Json evidence = Json::object();
  if (auto parsed = ParseJson(verdict.evidence, "evidence")) evidence = std::move(*parsed);
  return {{"gate", static_cast<int>(verdict.gate)},
          {"accepted", verdict.accepted},
          {"reason", verdict.reason},
          {"message", verdict.message},
          {"evidence", std::move(evidence)}};
}

std::string VerdictName(const VerdictKey& key) {
  Json json = {key.subject,  key.gate,    key.stage,  key.site,        key.gpu,
               key.versions, key.variant, key.policy, key.data_version};
  return Sha256Hex(DumpJson(json)).substr(0, 10);
}

std::string HashSites(const std::vector<BuiltSite>& sites) {
  std::set<std::string> each;  // the same site in two graphs is one
  for (const BuiltSite& built : sites) {
    CheckJob job;
    job.site = built.site;
    job.site.name.clear();
    Json site = ToJson(job)["site"];
    Json grid = built.grid;
    each.insert(DumpJson({site, grid}));
  }
  std::string all;
  for (const std::string& text : each) all += text + "\n";
  return Sha256Hex(all);
}

std::string HashSet(std::vector<std::string> replacement_ids) {
  std::ranges::sort(replacement_ids);
  std::string all;
  for (const std::string& id : replacement_ids) all += id + "\n";
  return Sha256Hex(all);
}

Json WinnerToJson(const Winner& winner) {
  return {{"replacement", ToJson(winner.replacement)},
          {"baseline_config", ToJson(winner.baseline_config)},
          {"binary_hash", winner.compiled.binary_hash},
          {"time_us", winner.time_us},
          {"baseline_us", winner.baseline_us},
          {"cold_us", winner.cold_us},
          {"baseline_cold_us", winner.baseline_cold_us},
          {"screening", winner.screening.message}};
}

Result<Winner> WinnerFromJson(const Json& json, const SearchSubject& subject, Compiler& compiler,
                              int compute_capability) {
  constexpr std::string_view kWhat = "a recorded winner";
  Winner winner;
  winner.replacement =
      KOPT_TRY(ReplacementFromJson(*KOPT_TRY(GetObject(json, "replacement", kWhat))));
  winner.baseline_config =
      KOPT_TRY(LaunchConfigFromJson(*KOPT_TRY(GetObject(json, "baseline_config", kWhat))));
  winner.time_us = KOPT_TRY(GetDouble(json, "time_us", kWhat));
  winner.baseline_us = KOPT_TRY(GetDouble(json, "baseline_us", kWhat));
  winner.cold_us = KOPT_TRY(GetDouble(json, "cold_us", kWhat));
  winner.baseline_cold_us = KOPT_TRY(GetDouble(json, "baseline_cold_us", kWhat));
  winner.screening = Accept(Gate::kKernel, KOPT_TRY(GetString(json, "screening", kWhat)));
  winner.baseline = KOPT_TRY(CompileBaseline(compiler, subject, compute_capability));
  winner.compiled = KOPT_TRY(
      CompileReplacement(compiler, *subject.kernel, winner.replacement, compute_capability));
  std::string recorded = KOPT_TRY(GetString(json, "binary_hash", kWhat));
  if (winner.compiled.binary_hash != recorded) {
    return Fail(ErrorKind::kUsage, "binary_differs",
                "the recorded winner compiles to another binary now", subject.key);
  }
  return winner;
}

CandidateRecorder::CandidateRecorder(Store& store, const Run& run, const SearchSubject& subject,
                                     std::string stage)
    : store_(store),
      run_(run),
      kernel_(subject.key),
      sites_(HashSites(subject.sites)),
      stage_(std::move(stage)) {}

Status CandidateRecorder::Record(const CandidateRecord& record) {
  Batch batch;
  std::string id = record.replacement.Id();
  auto once = [&](const std::string& row) { return known_.insert(id + row).second; };
  if (once("")) {
    batch.replacements.push_back({.id = id,
                                  .kernel = kernel_,
                                  .origin = record.replacement.origin,
                                  .change = record.replacement.change,
                                  .body = DumpJson(ToJson(record.replacement))});
  }
  for (const Verdict& verdict : record.verdicts) {
    VerdictKey key = KernelVerdictKey(run_, record.replacement, verdict.gate, stage_, sites_);
    if (once(VerdictName(key) + verdict.reason)) {
      batch.verdicts.push_back(ToRecord(verdict, key, kernel_));
    }
  }
  auto time = [&](const char* state, double ours_us, double baseline_us) {
    if (ours_us <= 0) return;
    MeasurementRecord row;
    row.key = {.subject = id,
               .site = sites_,
               .gpu = run_.gpu_id,
               .versions = run_.versions,
               .variant = "",
               .state = state,
               .purpose = "search",
               .data_version = kDataVersion};
    row.kernel = kernel_;
    row.batch = record.step;
    row.samples = {ours_us};
    row.gpu_uuid = run_.device.uuid;
    row.detail = DumpJson({{"baseline_us", baseline_us},
                           {"step", record.step},
                           {"registers", record.registers},
                           {"spill_bytes", record.spill_bytes}});
    if (once(state + row.detail)) batch.measurements.push_back(std::move(row));
  };
  time("as_in_model", record.time_us, record.baseline_us);
  time("cold", record.cold_us, record.baseline_cold_us);
  if (batch.replacements.empty() && batch.verdicts.empty() && batch.measurements.empty()) return {};
  return store_.Record(std::move(batch));
}

}  // namespace kernelopt
