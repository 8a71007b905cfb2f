#include "gates/access_check.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "inductor/module.h"
#include "inductor/splice.h"
#include "ttir/ranges.h"

namespace kernelopt {
namespace {

/// A launch as the range analysis sees it; `before` are the elements of each
/// parameter's storage that lie before its pointer.
struct SeenLaunch {
  LaunchFacts facts;
  std::vector<int64_t> before;

  auto Key() const { return std::tie(facts.grid, facts.scalars, facts.elements, before); }
  bool operator<(const SeenLaunch& other) const { return Key() < other.Key(); }
};

Result<SeenLaunch> SeeLaunch(const Kernel& kernel, const LaunchConfig& config,
                             const BuiltSite& site) {
  SeenLaunch seen;
  seen.facts.grid = KOPT_TRY(ComputeGrid(kernel, config, site.numels));
  for (int index : ArgumentsOfParameters(kernel)) {
    std::optional<int64_t> scalar, elements;
    int64_t before = 0;
    if (index < static_cast<int>(site.site.arguments.size())) {
      const ArgumentSpec& argument = site.site.arguments[static_cast<size_t>(index)];
      if (argument.kind == ArgumentSpec::Kind::kInt) scalar = argument.int_value;
      if (argument.kind == ArgumentSpec::Kind::kStorage) {
        const StorageSpec& storage = site.site.storages.at(static_cast<size_t>(argument.storage));
        const int size = SizeOf(storage.dtype);
        before = argument.byte_offset / size;
        elements = storage.bytes / size - before;
      }
    }
    seen.facts.scalars.push_back(scalar);
    seen.facts.elements.push_back(elements);
    seen.before.push_back(before);
  }
  return seen;
}

/// The accesses that are proven to leave their storages.
Result<std::vector<AccessRange>> Outside(const TtirModule& module, const SeenLaunch& launch) {
  std::vector<AccessRange> outside;
  const RangeReport report = KOPT_TRY(AnalyzeRanges(module, launch.facts));
  for (const AccessRange& access : report.accesses) {
    if (access.bounds != Bounds::kOutside) continue;
    const auto parameter = static_cast<size_t>(access.parameter);
    // Both ends of the offsets are reached.
    const Interval storage{-launch.before[parameter], *launch.facts.elements[parameter] - 1};
    if (!access.offsets.Within(storage)) outside.push_back(access);
  }
  return outside;
}

Result<std::vector<StaticFinding>> ReadOutputs(const TtirModule& candidate, const KernelPair& pair,
                                               const std::vector<BuiltSite>& sites) {
  std::vector<StaticFinding> findings;
  const Kernel& kernel = *pair.kernel;
  const auto uses = KOPT_TRY(UsesByArgument(kernel, KOPT_TRY(PointerUses(candidate))));
  std::set<size_t> told;
  for (const BuiltSite& site : sites) {
    for (size_t i = 0; i < uses.size() && i < site.site.arguments.size(); ++i) {
      const ArgumentSpec& argument = site.site.arguments[i];
      if (argument.kind != ArgumentSpec::Kind::kStorage) continue;
      const StorageSpec& storage = site.site.storages.at(static_cast<size_t>(argument.storage));
      if (uses[i].loads + uses[i].atomics == 0 || storage.role != StorageRole::kPoison) continue;
      if (!told.insert(i).second) continue;
      findings.push_back({"reads_output",
                          fmt::format("it reads from {}, which the compiler's kernel never does",
                                      kernel.arguments[i].name),
                          0, 0});
    }
  }
  return findings;
}

}  // namespace

Result<std::vector<StaticFinding>> CheckAccesses(const TtirModule& candidate,
                                                 const TtirModule& baseline, const KernelPair& pair,
                                                 const std::vector<BuiltSite>& sites) {
  std::vector<StaticFinding> findings = KOPT_TRY(ReadOutputs(candidate, pair, sites));
  const Kernel& kernel = *pair.kernel;
  const std::vector<int> arguments = ArgumentsOfParameters(kernel);
  std::set<SeenLaunch> seen;
  for (const BuiltSite& site : sites) {
    const SeenLaunch launch = KOPT_TRY(SeeLaunch(kernel, pair.candidate_config, site));
    if (!seen.insert(launch).second) continue;
    const std::vector<AccessRange> outside = KOPT_TRY(Outside(candidate, launch));
    if (outside.empty()) continue;
    // A recording can be at fault as well: then the compiler's kernel is outside, too.
    const SeenLaunch own = KOPT_TRY(SeeLaunch(kernel, pair.baseline_config, site));
    if (!KOPT_TRY(Outside(baseline, own)).empty()) continue;
    const AccessRange& access = outside.front();
    const auto parameter = static_cast<size_t>(access.parameter);
    const std::string line =
        access.source_line > 0 ? fmt::format(" in line {}", access.source_line) : "";
    findings.push_back(
        {"out_of_bounds",
         fmt::format("its {}{} goes to elements {} to {} of {}, which has {} at {}",
                     access.kind == AccessRange::Kind::kLoad ? "load" : "store", line,
                     access.offsets.low, access.offsets.high,
                     kernel.arguments[static_cast<size_t>(arguments.at(parameter))].name,
                     *launch.facts.elements[parameter], site.site.name),
         0, 0});
    break;
  }
  return findings;
}

}  // namespace kernelopt
