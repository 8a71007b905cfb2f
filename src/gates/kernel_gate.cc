#include "gates/kernel_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gates/owners.h"
#include "inductor/module.h"

namespace kernelopt {
namespace {

constexpr DataFamily kFamilies[] = {
    DataFamily::kUniform, DataFamily::kNormal,     DataFamily::kNormalShifted,
    DataFamily::kLarge,   DataFamily::kSmall,      DataFamily::kLogUniform,
    DataFamily::kTies,    DataFamily::kCancelling, DataFamily::kSpecial};
constexpr uint64_t kSeeds[] = {0, 42, 1337};
/// Fewer families than this with finite references say too little.
constexpr size_t kLeastFamilies = 3;

bool HasEnvelope(const Site& site) {
  return std::any_of(site.storages.begin(), site.storages.end(),
                     [](const StorageSpec& s) { return s.has_envelope; });
}

bool HasContents(const Site& site) {
  return std::any_of(site.storages.begin(), site.storages.end(),
                     [](const StorageSpec& s) { return !s.contents_path.empty(); });
}

std::string Describe(const DataSet& data) {
  return fmt::format("{} seed {}{}", ToString(data.family), data.seed,
                     data.in_envelope ? " in the observed envelope" : "");
}

bool IsWithout(const KernelRule& rule, DataFamily family) {
  return rule.without.contains(std::string(ToString(family)));
}

/// The rejection for a check that failed: which site, data set and element.
Verdict Failed(const CheckJob& job, const CheckResult& result) {
  std::string where = job.site.name + (job.guard_pages ? ", with guard pages" : "");
  Json evidence = {{"site", job.site.name}, {"guard_pages", job.guard_pages}};
  if (result.worst_set >= 0 && result.worst_set < static_cast<int>(job.data.size())) {
    const DataSet& data = job.data[static_cast<size_t>(result.worst_set)];
    where += ", " + Describe(data);
    evidence["data"] = {{"family", std::string(ToString(data.family))},
                        {"seed", data.seed},
                        {"in_envelope", data.in_envelope}};
  }
  if (result.worst_index >= 0) {
    where += fmt::format(", storage {} element {}", result.worst_storage, result.worst_index);
    // Text, since JSON has no infinity and no NaN.
    evidence["element"] = {{"storage", result.worst_storage},
                           {"index", result.worst_index},
                           {"value", fmt::format("{:.17g}", result.worst_value)},
                           {"reference", fmt::format("{:.17g}", result.worst_reference)},
                           {"scale", fmt::format("{:.17g}", result.worst_scale)}};
  }
  return Reject(Gate::kKernel, result.reason, fmt::format("{}: {}", where, result.message),
                DumpJson(evidence));
}

/// What was seen over the data sets of one family.
struct FamilySummary {
  int sets = 0, counted = 0;
  bool bitwise = true;
  bool has_twin = false;
  double max_z = 0, rms_z = 0, own_max_z = 0, own_rms_z = 0;
  int64_t aside = 0;
};

void Add(const CheckResult& result, std::map<std::string, FamilySummary>* families) {
  for (const DataSetResult& set : result.sets) {
    FamilySummary& family = (*families)[std::string(ToString(set.data.family))];
    ++family.sets;
    family.counted += set.counted;
    family.bitwise = family.bitwise && set.bitwise_equal;
    if (!set.counted) continue;
    family.max_z = std::max(family.max_z, set.max_z);
    family.rms_z = std::max(family.rms_z, set.rms_z);
    family.own_max_z = std::max(family.own_max_z, set.own_max_z);
    family.own_rms_z = std::max(family.own_rms_z, set.own_rms_z);
    family.aside += set.aside;
    family.has_twin = result.has_twin;
  }
}

Json ToJson(const std::map<std::string, FamilySummary>& families) {
  Json json = Json::object();
  for (const auto& [name, family] : families) {
    json[name] = {{"sets", family.sets},           {"counted", family.counted},
                  {"bitwise", family.bitwise},     {"max_z", family.max_z},
                  {"rms_z", family.rms_z},         {"has_twin", family.has_twin},
                  {"own_max_z", family.own_max_z}, {"own_rms_z", family.own_rms_z},
                  {"aside", family.aside}};
  }
  return json;
}

/// Sites that differ in nothing but their place are judged once.
std::string SiteIdentity(const BuiltSite& site) {
  CheckJob job;
  job.site = site.site;
  job.site.name.clear();
  std::string text = DumpJson(ToJson(job));
  for (const auto& [name, value] : site.numels) text += fmt::format(" {}={}", name, value);
  return text;
}

/// Whether the candidate's programs keep to elements of their own in what they update in
/// place; the compiler's kernel may do otherwise, and then so may the candidate.
Verdict CheckOwners(Judge& judge, const KernelPair& pair, TwinMaker& twins, const BuiltSite& site,
                    const CheckJob& whole) {
  const auto touches_others = [&](const LaunchConfig& config,
                                  const CompileOutput& compiled) -> Result<CheckResult> {
    CheckJob job = whole;
    job.owners = KOPT_TRY(OwnersAt(twins.compiler(), twins.compute_capability(), *pair.kernel,
                                   config, compiled, site));
    if (job.owners.empty()) return CheckResult{};
    job.candidate = KOPT_TRY(ProgramAt(*pair.kernel, config, compiled, site));
    job.data = {{DataFamily::kNormal, 0, false}};
    job.repeats = 1;
    return judge.Check(job);
  };
  const auto failed = [](const Error& error) {
    if (error.code == "not_analysable") {
      return Reject(Gate::kKernel, error.code, error.ToString());
    }
    return JudgeFailure(Gate::kKernel, error);
  };
  auto result = touches_others(pair.candidate_config, *pair.candidate);
  if (!result) return failed(result.error());
  if (result->reason != "race") return Accept(Gate::kKernel, "its programs keep apart");
  auto own = touches_others(pair.baseline_config, *pair.baseline);
  if (!own) return failed(own.error());
  if (own->reason == "race") return Accept(Gate::kKernel, "as the compiler's kernel");
  return Failed(whole, *result);
}

}  // namespace

Result<CheckJob> MakeCheckJob(const KernelPair& pair, const BuiltSite& site,
                              const KernelRule& rule) {
  CheckJob job;
  job.site = site.site;
  job.baseline = KOPT_TRY(ProgramAt(*pair.kernel, pair.baseline_config, *pair.baseline, site));
  job.candidate = KOPT_TRY(ProgramAt(*pair.kernel, pair.candidate_config, *pair.candidate, site));
  job.rule = rule.error;
  job.time_limit_ms = rule.time_limit_ms;
  job.without = rule.without;
  return job;
}

std::vector<DataSet> ScreenData(const Site& site) {
  return {{DataFamily::kNormal, 0, false},
          {DataFamily::kUniform, 42, HasEnvelope(site)},
          {DataFamily::kSpecial, 1337, false}};
}

std::vector<DataSet> CertifyData(const Site& site) {
  std::vector<DataSet> data;
  bool envelope = HasEnvelope(site);
  for (DataFamily family : kFamilies) {
    for (uint64_t seed : kSeeds) {
      data.push_back({family, seed, false});
      if (envelope) data.push_back({family, seed, true});
    }
  }
  if (envelope || HasContents(site)) {
    for (uint64_t seed : kSeeds) data.push_back({DataFamily::kCaptured, seed, envelope});
  }
  return data;
}

Verdict JudgeFailure(Gate gate, const Error& error) {
  std::string reason = "judge_failed";
  if (error.code == "out_of_memory") reason = "not_verifiable_here";
  if (error.code == "sick_device" || error.code == "died") reason = "crashed";
  if (error.code == "timeout") reason = "hung";
  if (error.code == "unsupported_grid") reason = "unsupported_grid";
  return Reject(gate, reason, error.ToString());
}

Verdict ScreenKernel(Judge& judge, const KernelPair& pair, TwinMaker& twins,
                     const std::vector<BuiltSite>& sites, const KernelRule& rule) {
  auto job = MakeCheckJob(pair, sites.front(), rule);
  if (!job) return JudgeFailure(Gate::kKernel, job.error());
  auto twin = twins.At(sites.front());
  if (!twin) return Reject(Gate::kKernel, twin.error().code, twin.error().ToString());
  job->twin = std::move(*twin);
  job->data = ScreenData(job->site);
  std::erase_if(job->data, [&](const DataSet& data) { return IsWithout(rule, data.family); });
  auto result = judge.Check(*job);
  if (!result) return JudgeFailure(Gate::kKernel, result.error());
  if (!result->ok()) return Failed(*job, *result);
  std::map<std::string, FamilySummary> families;
  Add(*result, &families);
  Json evidence = {{"bitwise", result->bitwise_equal}, {"families", ToJson(families)}};
  return Accept(Gate::kKernel,
                fmt::format("screened at {} on {} data sets{}", job->site.name, job->data.size(),
                            result->bitwise_equal ? ": bitwise equal" : ""),
                DumpJson(evidence));
}

Verdict CertifyKernel(Judge& judge, const KernelPair& pair, TwinMaker& twins,
                      const std::vector<BuiltSite>& sites, const KernelRule& rule) {
  Json evidence = {{"bitwise", true}, {"sites", Json::array()}};
  std::set<std::string> seen;
  bool bitwise = true;
  size_t sets = 0;
  double max_z = 0;
  for (const BuiltSite& site : sites) {
    if (!seen.insert(SiteIdentity(site)).second) continue;
    auto job = MakeCheckJob(pair, site, rule);
    if (!job) return JudgeFailure(Gate::kKernel, job.error());
    auto twin = twins.At(site);
    if (!twin) return Reject(Gate::kKernel, twin.error().code, twin.error().ToString());
    if (!rule.without.contains("race")) {
      Verdict owners = CheckOwners(judge, pair, twins, site, *job);
      if (!owners.accepted) return owners;
    }
    job->twin = std::move(*twin);
    // One job a family: each has its own time limit.
    std::map<DataFamily, std::vector<DataSet>> by_family;
    for (const DataSet& data : CertifyData(site.site)) {
      if (!IsWithout(rule, data.family)) by_family[data.family].push_back(data);
    }
    std::map<DataFamily, std::vector<std::vector<uint64_t>>> known;  // bits that are right
    for (bool guard_pages : {false, true}) {
      if (guard_pages && rule.without.contains("guard_pages")) continue;
      job->guard_pages = guard_pages;
      std::map<std::string, FamilySummary> families;
      size_t counted = 0;
      for (const auto& [family, data] : by_family) {
        job->data = data;
        job->known = known[family];
        auto result = judge.Check(*job);
        if (!result) return JudgeFailure(Gate::kKernel, result.error());
        Add(*result, &families);
        if (result->ok() && !guard_pages) {
          for (const DataSetResult& set : result->sets) known[family].push_back(set.checksums);
        }
        if (result->reason == "nothing_counted") continue;
        if (!result->ok()) return Failed(*job, *result);
        ++counted;
        sets += data.size();
        bitwise = bitwise && result->bitwise_equal;
      }
      if (counted < kLeastFamilies) {
        return Reject(Gate::kKernel, "nothing_counted",
                      fmt::format("{}: only {} families of data gave finite references, wanted {}",
                                  site.site.name, counted, kLeastFamilies),
                      DumpJson({{"site", site.site.name}, {"families", ToJson(families)}}));
      }
      for (const auto& [name, family] : families) max_z = std::max(max_z, family.max_z);
      evidence["sites"].push_back(
          {{"site", site.site.name}, {"guard_pages", guard_pages}, {"families", ToJson(families)}});
    }
  }
  evidence["bitwise"] = bitwise;
  return Accept(Gate::kKernel,
                fmt::format("{}: {} data sets at {} sites, largest error {:.3g} scales",
                            bitwise ? "bitwise" : "within rule", sets, seen.size(), max_z),
                DumpJson(evidence));
}

bool IsBitwise(const Verdict& verdict) {
  auto evidence = ParseJson(verdict.evidence, "evidence");
  return verdict.accepted && evidence && evidence->value("bitwise", false);
}

}  // namespace kernelopt
