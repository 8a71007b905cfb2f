#include "shadow/missing_writes.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/file.h"
#include "ttir/ranges.h"

namespace kernelopt {
namespace {

/// Analyses an element: 25 halvings of a grid of 2^31, two parts each, and some that
/// reach it from several places.
constexpr int kMostAnalyses = 200;
/// Programs an element that are worth a run.
constexpr size_t kMostSuspects = 16;

class Search {
 public:
  Search(const TtirModule& module, LaunchFacts facts, std::set<ShadowInstance> ran)
      : module_(module), facts_(std::move(facts)), ran_(std::move(ran)) {}

  /// Offsets of the storage's start from a parameter's pointer, in elements.
  void AddParameter(int parameter, int64_t offset) { offset_of_.emplace_back(parameter, offset); }

  /// The programs that may write it; nothing where they are too many.
  std::optional<std::vector<ShadowInstance>> Suspects(int64_t element) {
    left_ = kMostAnalyses;
    suspects_.clear();
    if (!Excludes({{0, 0, 0}, facts_.grid}, element)) return std::nullopt;
    return suspects_;
  }

 private:
  bool Excludes(const ProgramBox& box, int64_t element) {
    const int64_t count = box.count[0] * box.count[1] * box.count[2];
    const ShadowInstance first = {static_cast<int32_t>(box.first[0]),
                                  static_cast<int32_t>(box.first[1]),
                                  static_cast<int32_t>(box.first[2])};
    if (count == 1 && ran_.contains(first)) return true;
    if (left_-- <= 0) return false;
    if (!Reaches(box, element)) return true;
    if (count == 1) {
      suspects_.push_back(first);
      return suspects_.size() <= kMostSuspects;
    }
    const size_t axis =
        static_cast<size_t>(std::ranges::max_element(box.count) - box.count.begin());
    ProgramBox low = box, high = box;
    low.count[axis] = box.count[axis] / 2;
    high.first[axis] += low.count[axis];
    high.count[axis] -= low.count[axis];
    return Excludes(low, element) && Excludes(high, element);
  }

  /// Whether a store of the box may reach it.
  bool Reaches(const ProgramBox& box, int64_t element) {
    facts_.programs = box;
    const auto report = AnalyzeRanges(module_, facts_);
    if (!report) return true;
    return std::ranges::any_of(report->accesses, [&](const AccessRange& access) {
      if (access.kind == AccessRange::Kind::kLoad) return false;
      if (access.parameter < 0) return true;
      return std::ranges::any_of(offset_of_, [&](const auto& known) {
        const int64_t at = element - known.second;
        return known.first == access.parameter && access.offsets.low <= at &&
               at <= access.offsets.high;
      });
    });
  }

  const TtirModule& module_;
  LaunchFacts facts_;
  std::set<ShadowInstance> ran_;
  std::vector<std::pair<int, int64_t>> offset_of_;
  std::vector<ShadowInstance> suspects_;
  int left_ = 0;
};

}  // namespace

Result<std::vector<UnwrittenElement>> NeverWritten(const Program& program, const Site& site,
                                                   int storage,
                                                   const std::vector<int64_t>& elements,
                                                   const std::vector<ShadowInstance>& ran) {
  const TtirModule module =
      KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(program.ttir_path)), program.ttir_path));
  LaunchFacts facts;
  facts.grid = program.grid;
  std::vector<std::pair<int, int64_t>> parameters;
  const int size = SizeOf(site.storages[static_cast<size_t>(storage)].dtype);
  for (const LaunchParameter& parameter : program.record.parameters) {
    if (parameter.kind == LaunchParameter::Kind::kScratch) continue;
    const ArgumentSpec& argument = site.arguments.at(static_cast<size_t>(parameter.argument));
    if (argument.kind == ArgumentSpec::Kind::kStorage && argument.storage == storage) {
      if (argument.byte_offset % size != 0) return std::vector<UnwrittenElement>{};
      parameters.emplace_back(static_cast<int>(facts.scalars.size()), argument.byte_offset / size);
    }
    facts.scalars.push_back(argument.kind == ArgumentSpec::Kind::kInt
                                ? std::optional(argument.int_value)
                                : std::nullopt);
    facts.elements.emplace_back();
  }
  Search search(module, std::move(facts), {ran.begin(), ran.end()});
  for (const auto& [parameter, offset] : parameters) search.AddParameter(parameter, offset);
  std::vector<UnwrittenElement> never;
  for (int64_t element : elements)
    if (auto suspects = search.Suspects(element)) never.push_back({element, std::move(*suspects)});
  return never;
}

}  // namespace kernelopt
