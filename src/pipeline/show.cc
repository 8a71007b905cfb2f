#include "pipeline/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pipeline/records.h"

namespace kernelopt {
namespace {

std::string FieldText(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

/// The fastest candidates that were timed as in the model.
std::vector<std::pair<double, MeasurementRecord>> Fastest(
    const std::vector<MeasurementRecord>& measurements, size_t count) {
  std::vector<std::pair<double, MeasurementRecord>> timed;
  for (const MeasurementRecord& record : measurements) {
    if (record.key.purpose != "search" || record.key.state != "as_in_model") continue;
    auto detail = ParseJson(record.detail, "measurement");
    double baseline = detail ? detail->value("baseline_us", 0.0) : 0;
    if (record.samples.size() != 1 || record.samples[0] <= 0 || baseline <= 0) continue;
    timed.emplace_back(baseline / record.samples[0], record);
  }
  std::ranges::stable_sort(timed, [](const auto& a, const auto& b) { return a.first > b.first; });
  // A candidate that was timed in several rounds shows its best place only.
  std::vector<std::pair<double, MeasurementRecord>> fastest;
  for (auto& item : timed) {
    bool seen = std::ranges::any_of(fastest, [&](const auto& other) {
      return other.second.key.subject == item.second.key.subject;
    });
    if (!seen) fastest.push_back(std::move(item));
    if (fastest.size() == count) break;
  }
  return fastest;
}

}  // namespace

Result<FoundKernel> FindKernel(const Store& store, const std::string& wanted) {
  std::vector<FoundKernel> exact, begins;
  for (const KernelRecord& kernel : KOPT_TRY(store.Kernels())) {
    if (kernel.name == wanted || kernel.key == wanted) {
      exact.push_back({kernel.key, kernel.name});
    } else if (kernel.name.starts_with(wanted) || kernel.key.starts_with(wanted)) {
      begins.push_back({kernel.key, kernel.name});
    }
  }
  const std::vector<FoundKernel>& found = exact.empty() ? begins : exact;
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return Fail(ErrorKind::kUsage, "no_such_kernel",
                fmt::format("has no kernel '{}'; `kernelopt show RUN` lists them", wanted),
                store.Folder());
  }
  return Fail(ErrorKind::kUsage, "ambiguous_kernel",
              fmt::format("has {} kernels that begin with '{}', for instance {} and {}; give more "
                          "of the name, or the key",
                          found.size(), wanted, found[0].name, found[1].name),
              store.Folder());
}

Result<KernelStory> TellKernel(const Store& store, const Json& report, const std::string& wanted) {
  FoundKernel kernel{"", "the whole model"};
  if (wanted != "model") kernel = KOPT_TRY(FindKernel(store, wanted));
  KernelStory story;
  Json data = {{"key", kernel.key}, {"name", kernel.name}};
  story.text = kernel.name + "\n";
  if (auto kernels = report.find("kernels"); kernels != report.end()) {
    for (const Json& item : *kernels) {
      if (kernel.key.empty() || item.value("key", "") != kernel.key) continue;
      data["summary"] = item;
      for (const auto& [name, value] : item.items()) {
        if (value.is_null() || value.is_array() || name == "name" || FieldText(value).empty()) {
          continue;
        }
        story.text += fmt::format("  {:<14} {}\n", name, FieldText(value));
      }
    }
  }

  story.text += "\nverdicts (`kernelopt replay RUN VERDICT` does one again)\n";
  Json verdicts = Json::array();
  for (const VerdictRecord& record : KOPT_TRY(store.AllVerdicts(kernel.key))) {
    std::string name = VerdictName(record.key);
    // The same verdict once more, of a run that was started again, is no news.
    std::string line =
        fmt::format("  {}  gate {} {:<8} {:<20} {}\n", name, record.key.gate, record.key.stage,
                    record.accepted ? "accepted" : record.reason, record.message);
    if (story.text.find(line) == std::string::npos) story.text += line;
    Json evidence = Json::object();
    if (auto parsed = ParseJson(record.evidence, "evidence")) evidence = std::move(*parsed);
    verdicts.push_back({{"verdict", name},
                        {"gate", record.key.gate},
                        {"stage", record.key.stage},
                        {"subject", record.key.subject},
                        {"variant", record.key.variant},
                        {"accepted", record.accepted},
                        {"reason", record.reason},
                        {"message", record.message},
                        {"evidence", std::move(evidence)}});
  }
  if (verdicts.empty()) story.text += "  none\n";
  data["verdicts"] = std::move(verdicts);
  if (kernel.key.empty()) {
    story.data = std::move(data);
    return story;
  }

  std::vector<MeasurementRecord> measurements = KOPT_TRY(store.Measurements(kernel.key));
  Json candidates = Json::array();
  for (const auto& [speedup, record] : Fastest(measurements, 10)) {
    std::string change;
    if (auto replacement = KOPT_TRY(store.FindReplacement(record.key.subject))) {
      change = replacement->change;
    }
    candidates.push_back({{"replacement", record.key.subject},
                          {"time_us", record.samples[0]},
                          {"speedup", speedup},
                          {"change", change}});
  }
  if (!candidates.empty()) story.text += "\nfastest candidates\n";
  for (const Json& item : candidates) {
    story.text += fmt::format("  {:>8.3f} us  {:>6.3f}x  {}\n", item["time_us"].get<double>(),
                              item["speedup"].get<double>(), item["change"].get<std::string>());
  }
  data["candidates"] = std::move(candidates);
  story.data = std::move(data);
  return story;
}

}  // namespace kernelopt
