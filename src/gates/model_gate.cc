#include "gates/model_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "workers/model.h"

namespace kernelopt {
namespace {

Json ToJson(const TensorComparison& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype},
          {"same_layout", tensor.same_layout},
          {"bitwise_equal", tensor.bitwise_equal},
          {"has_float64", tensor.has_float64},
          {"rms", {tensor.rms_stitched, tensor.rms_compiled, tensor.rms_eager}},
          {"max", {tensor.max_stitched, tensor.max_compiled, tensor.max_eager}},
          {"nonfinite_mismatches", tensor.nonfinite_mismatches},
          {"allclose_1e4", tensor.allclose_1e4}};
}

Json ToJson(const InSituComparison& launch) {
  return {{"kernel", launch.kernel},
          {"key", launch.key},
          {"launches", launch.launches},
          {"bitwise_equal", launch.bitwise_equal},
          {"max_z", launch.max_z},
          {"own_z", launch.own_z},
          {"rms_z", launch.rms_z},
          {"integer_mismatches", launch.integer_mismatches},
          {"nonfinite_mismatches", launch.nonfinite_mismatches},
          {"skipped", launch.skipped}};
}

std::string Evidence(const ModelCheck& check) {
  Json json;
  json["swapped"] = check.swapped;
  json["misses"] = *check.misses;
  json["launches"] = check.launches;
  json["in_situ"] = Json::array();
  for (const InSituComparison& launch : check.in_situ) json["in_situ"].push_back(ToJson(launch));
  json["random"] = check.random;
  json["float64_path"] = check.float64_path;
  json["note"] = check.note;
  json["comparisons"] = Json::array();
  for (const ModelComparison& comparison : check.comparisons) {
    Json tensors = Json::array();
    for (const TensorComparison& tensor : comparison.tensors) tensors.push_back(ToJson(tensor));
    json["comparisons"].push_back({{"setting", comparison.setting},
                                   {"seed", comparison.seed},
                                   {"data", comparison.data},
                                   {"redrawn_weights", comparison.redrawn_weights},
                                   {"consecutive_calls", comparison.consecutive_calls},
                                   {"tensors", tensors}});
  }
  return DumpJson(json);
}

std::string Place(const ModelComparison& comparison, const TensorComparison& tensor) {
  return fmt::format("{} (setting {}, seed {}, {} inputs{})", tensor.name, comparison.setting,
                     comparison.seed, comparison.data,
                     comparison.redrawn_weights ? ", redrawn weights" : "");
}

bool IsFloat(const std::string& dtype) {
  return dtype.find("float") != std::string::npos || dtype.starts_with("fp") || dtype == "bf16";
}

/// A number that is not finite can't be within any bound.
bool Within(double value, double bound) {
  return std::isfinite(value) && value <= bound;
}

struct Finding {
  std::string reason, message;
};

/// The rule for one tensor; an empty reason when it holds.
Finding JudgeTensor(const ModelCheck& check, const ModelRule& rule,
                    const ModelComparison& comparison, const TensorComparison& tensor) {
  std::string place = Place(comparison, tensor);
  if (!tensor.same_layout) {
    return {
        "layout_changed",
        fmt::format("{} has another shape, type, strides or aliasing than the compiler's", place)};
  }
  if (tensor.bitwise_equal) return {};
  if (check.random) {
    return {"not_bitwise",
            fmt::format("{} differs from the compiled baseline, and a model with random numbers "
                        "must equal it bit for bit",
                        place)};
  }
  if (tensor.nonfinite_mismatches > 0) {
    return {"wrong_nonfinite",
            fmt::format("{} has {} elements whose class (finite, infinite, NaN) is neither "
                        "float64's nor the compiler's",
                        place, tensor.nonfinite_mismatches)};
  }
  // As the user set it, convolutions and matrix products may round to TF32 and
  // pick algorithms by timing, which hides or fakes small differences.
  if (comparison.setting != "strict") return {};
  if (!IsFloat(tensor.dtype)) {
    return {"wrong_integer", fmt::format("{} differs from the compiled baseline", place)};
  }
  if (!tensor.has_float64 && rule.allow_weaker) {
    if (tensor.allclose_1e4 >= 1) return {};
    return {"wrong_value", fmt::format("{:.4f} % of {} is within 1e-4 of eager, wanted all of it",
                                       100 * tensor.allclose_1e4, place)};
  }
  if (!tensor.has_float64) {
    return {"no_float64", fmt::format("{} was not compared with a float64 run", place)};
  }
  if (tensor.max_compiled > 10 * tensor.max_eager && tensor.max_compiled > 16) {
    return {"compiler_wrong",
            fmt::format("in {} the compiler's own error is {:.3g} scales, eager's {:.3g}: a fault "
                        "of the compiler, so nothing is replaced",
                        place, tensor.max_compiled, tensor.max_eager)};
  }
  double rms_bound =
      rule.rms_factor * std::max(tensor.rms_compiled, tensor.rms_eager) + rule.rms_slack;
  double max_bound =
      rule.max_factor * std::max(tensor.max_compiled, tensor.max_eager) + rule.max_slack;
  if (!Within(tensor.rms_stitched, rms_bound)) {
    return {"wrong_value", fmt::format("{} has an RMS error of {:.4g} scales, allowed {:.4g}",
                                       place, tensor.rms_stitched, rms_bound)};
  }
  if (!Within(tensor.max_stitched, max_bound)) {
    return {"wrong_value", fmt::format("{} has a largest error of {:.4g} scales, allowed {:.4g}",
                                       place, tensor.max_stitched, max_bound)};
  }
  return {};
}

/// The rule for the launches of one swapped kernel inside the model.
Finding JudgeInSitu(const ModelRule& rule, const InSituComparison& launch) {
  if (launch.launches <= launch.skipped)
    return {"not_in_situ", fmt::format("no launch of {} was compared", launch.kernel)};
  if (launch.integer_mismatches > 0 || launch.nonfinite_mismatches > 0) {
    return {"wrong_in_situ",
            fmt::format("{} differs from the compiler's kernel on the model's data: {} integers, "
                        "{} classes of non-finite values",
                        launch.kernel, launch.integer_mismatches, launch.nonfinite_mismatches)};
  }
  if (launch.bitwise_equal) return {};
  double max_z = std::max(rule.in_situ_max,
                          std::min(rule.in_situ_own_factor * launch.own_z + 1, rule.in_situ_most));
  if (!Within(launch.rms_z, rule.in_situ_rms) || !Within(launch.max_z, max_z)) {
    return {"wrong_in_situ",
            fmt::format("{} differs from the compiler's kernel on the model's data by {:.3g} "
                        "scales RMS and {:.3g} at most, allowed {} and {}",
                        launch.kernel, launch.rms_z, launch.max_z, rule.in_situ_rms, max_z)};
  }
  return {};
}

/// The profiler's counts: each swapped kernel was launched as often as the
/// compiler's.
Finding JudgeLaunches(const ModelCheck& check, const ModelRule& rule,
                      const InSituComparison& launch) {
  auto compiled = check.launches.find("compiled");
  auto stitched = check.launches.find("stitched");
  if (compiled == check.launches.end() || stitched == check.launches.end() ||
      compiled->second.empty()) {
    if (rule.allow_weaker) return {};
    return {"no_launch_counts",
            "torch's profiler saw no kernel on the GPU, so launches can't be counted; allow "
            "profiling on this machine"};
  }
  auto count = [](const std::map<std::string, int64_t>& launches, const std::string& name) {
    auto it = launches.find(name);
    return it == launches.end() ? int64_t{0} : it->second;
  };
  int64_t before = count(compiled->second, launch.kernel);
  int64_t after = count(stitched->second, launch.kernel + "__kopt");
  // Another module's kernel of the same name may have stayed.
  int64_t kept = count(stitched->second, launch.kernel);
  if (before == after + kept && after > 0) return {};
  return {"launches_changed",
          fmt::format("the profiler saw {} launches of {} and {} of its replacement", before,
                      launch.kernel, after)};
}

}  // namespace

Verdict JudgeModel(const ModelCheck& check, const ModelRule& rule) {
  std::string evidence = Evidence(check);
  auto reject = [&](std::string reason, std::string message) {
    return Reject(Gate::kModel, std::move(reason), std::move(message), evidence);
  };
  std::set<std::string> swapped(check.swapped.begin(), check.swapped.end());
  std::set<std::string> expected(rule.expected_swaps.begin(), rule.expected_swaps.end());
  for (const std::string& key : expected) {
    if (!swapped.contains(key))
      return reject("not_swapped",
                    fmt::format("kernel {} was not swapped; the loader's misses say why", key));
  }
  for (const std::string& key : swapped) {
    if (!expected.contains(key))
      return reject("unexpected_swap",
                    fmt::format("kernel {} was swapped but is not in the set", key));
  }
  if (check.externs_compiled != check.externs_stitched) {
    return reject("externs_changed",
                  fmt::format("the stitched model makes {} library calls, the compiler's {}, or "
                              "others, or in another order",
                              check.externs_stitched.size(), check.externs_compiled.size()));
  }
  if (check.degenerate) {
    return reject("degenerate",
                  "the output is constant or independent of the input, so it proves nothing");
  }
  bool weaker = !check.random && !check.float64_path;
  if (weaker && !rule.allow_weaker) {
    return reject("no_float64", "no float64 run of the model was possible: " +
                                    (check.note.empty() ? std::string("no note") : check.note));
  }
  for (const std::string& key : expected) {
    auto launch =
        std::find_if(check.in_situ.begin(), check.in_situ.end(),
                     [&](const InSituComparison& candidate) { return candidate.key == key; });
    if (launch == check.in_situ.end())
      return reject("not_in_situ", fmt::format("no launch of kernel {} was compared", key));
  }
  for (const InSituComparison& launch : check.in_situ) {
    for (const Finding& finding : {JudgeInSitu(rule, launch), JudgeLaunches(check, rule, launch)})
      if (!finding.reason.empty()) return reject(finding.reason, finding.message);
  }
  size_t strict = 0, tensors = 0, bitwise = 0;
  double worst = 0;
  for (const ModelComparison& comparison : check.comparisons) {
    if (comparison.tensors.empty()) continue;
    strict += comparison.setting == "strict";
    for (const TensorComparison& tensor : comparison.tensors) {
      Finding finding = JudgeTensor(check, rule, comparison, tensor);
      if (!finding.reason.empty()) return reject(finding.reason, finding.message);
      ++tensors;
      bitwise += tensor.bitwise_equal;
      if (tensor.has_float64) worst = std::max(worst, tensor.max_stitched);
    }
  }
  if (tensors == 0) return reject("no_comparisons", "the worker compared no tensor");
  if (strict == 0) {
    return reject("no_strict_setting",
                  "nothing was compared with TF32 off and deterministic algorithms");
  }
  return Accept(Gate::kModel,
                fmt::format("{} tensors in {} comparisons are right, {} of them bitwise equal to "
                            "the compiler's; largest error {:.3g} scales{}",
                            tensors, check.comparisons.size(), bitwise, worst,
                            weaker ? " (a weaker check: no float64 run was possible)" : ""),
                evidence);
}

}  // namespace kernelopt
