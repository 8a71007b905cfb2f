#include "gates/power_probe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "inductor/module.h"
#include "ttir/canonical.h"
#include "ttir/faults.h"

namespace kernelopt {
namespace {

/// Of a fault that the usual data lets through.
constexpr uint64_t kMoreSeeds[] = {7, 99};

int64_t BytesOf(const BuiltSite& site) {
  int64_t bytes = 0;
  for (const StorageSpec& storage : site.site.storages) bytes += storage.bytes;
  return bytes;
}

Result<std::string> Canonical(const std::string& path) {
  return CanonicalTtir(KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(path)), path)));
}

/// In the order in which they are tried: one that notices almost everything, then all.
std::vector<std::vector<DataSet>> Batches(const Site& site) {
  std::vector<std::vector<DataSet>> batches = {{{DataFamily::kNormal, 0, false}}, {}, {}};
  for (const DataSet& data : CertifyData(site)) {
    batches[1].push_back(data);
    if (data.seed != 0) continue;
    for (uint64_t seed : kMoreSeeds) batches[2].push_back({data.family, seed, data.in_envelope});
  }
  return batches;
}

class Prober {
 public:
  Prober(Judge& judge, const KernelPair& baseline, const BuiltSite& site, const KernelRule& rule)
      : judge_(judge), baseline_(baseline), site_(site), rule_(rule) {}

  Status Prepare(TwinMaker& twins) {
    auto twin = twins.At(site_);
    if (twin) twin_ = std::move(*twin);
    if (!twin && twin.error().code == "interrupted") return std::unexpected(twin.error());
    baseline_ttir_ = KOPT_TRY(Canonical(baseline_.baseline->ttir_path));
    return {};
  }

  Status Try(const CompileOutput& compiled, ProbedFault* fault) {
    KernelPair pair = baseline_;
    pair.candidate_config = baseline_.baseline_config;
    pair.candidate = &compiled;
    const std::string hash = baseline_.baseline->binary_hash;
    if (compiled.binary_hash == hash || KOPT_TRY(Canonical(compiled.ttir_path)) == baseline_ttir_) {
      fault->outcome = "equivalent";
      return {};
    }
    bool differs = false;
    for (std::vector<DataSet>& data : Batches(site_.site)) {
      CheckJob job = KOPT_TRY(MakeCheckJob(pair, site_, rule_));
      job.twin = twin_;
      job.data = std::move(data);
      job.repeats = 1;  // what the fault computes is asked for, not whether it is steady
      auto checked = judge_.Check(job);
      if (!checked) {
        const std::string reason = JudgeFailure(Gate::kKernel, checked.error()).reason;
        if (reason != "crashed" && reason != "hung") return std::unexpected(checked.error());
        fault->outcome = "caught";
        fault->reason = reason;
        return {};
      }
      const CheckResult& result = *checked;
      if (!result.ok() && result.reason != "nothing_counted") {
        fault->outcome = "caught";
        fault->reason = result.reason;
        const auto set = static_cast<size_t>(std::max(result.worst_set, 0));
        if (set < job.data.size()) fault->family = ToString(job.data[set].family);
        return {};
      }
      differs = differs || !std::ranges::all_of(result.sets, &DataSetResult::bitwise_equal);
    }
    fault->outcome = differs ? "passed" : "silent";
    return {};
  }

 private:
  Judge& judge_;
  const KernelPair& baseline_;
  const BuiltSite& site_;
  const KernelRule& rule_;
  std::optional<Program> twin_;
  std::string baseline_ttir_;
};

}  // namespace

int PowerReport::Count(const std::string& outcome) const {
  return static_cast<int>(std::ranges::count(faults, outcome, &ProbedFault::outcome));
}

Json PowerReport::ToJson() const {
  Json json = {{"faults", Json::array()}};
  for (const char* outcome : {"caught", "equivalent", "silent", "passed", "unknown"}) {
    json[outcome] = Count(outcome);
  }
  for (const ProbedFault& fault : faults) {
    json["faults"].push_back({{"name", fault.name},
                              {"source_line", fault.source_line},
                              {"outcome", fault.outcome},
                              {"reason", fault.reason},
                              {"family", fault.family}});
  }
  return json;
}

Result<PowerReport> ProbePower(Judge& judge, Compiler& compiler, int compute_capability,
                               const KernelPair& baseline, TwinMaker& twins,
                               const std::vector<BuiltSite>& sites, const KernelRule& rule,
                               const Clock& clock, double seconds) {
  const double begin = clock.Seconds();
  const std::string& path = baseline.baseline->ttir_path;
  const TtirModule module = KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(path)), path));
  const std::vector<Fault> faults = PlantFaults(module);
  PowerReport report;
  if (faults.empty()) return report;
  std::vector<std::string> texts;
  for (const Fault& fault : faults) texts.push_back(fault.text);
  const auto compiled =
      CompileTtir(compiler, *baseline.kernel, baseline.baseline_config, compute_capability, texts);
  const BuiltSite& site = *std::ranges::min_element(sites, {}, BytesOf);
  Prober prober(judge, baseline, site, rule);
  KOPT_CHECK_OK(prober.Prepare(twins));
  for (size_t i = 0; i < faults.size(); ++i) {
    ProbedFault& fault = report.faults.emplace_back();
    fault.name = faults[i].name;
    fault.source_line = faults[i].source_line;
    fault.outcome = "unknown";
    if (!compiled[i]) {
      if (compiled[i].error().code == "interrupted") return std::unexpected(compiled[i].error());
      fault.reason = compiled[i].error().code;
    } else if (clock.Seconds() - begin <= seconds) {
      KOPT_CHECK_OK(prober.Try(*compiled[i], &fault));
    }
  }
  return report;
}

}  // namespace kernelopt
