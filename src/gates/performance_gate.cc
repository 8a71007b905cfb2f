#include "gates/performance_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "gates/student_t.h"
#include "workers/model.h"

namespace kernelopt {
namespace {

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double SumOfSquares(const std::vector<double>& values) {
  double mean = Mean(values), sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

std::string Evidence(const ModelTiming& timing, const PerformanceEffect* effect) {
  Json json;
  if (effect != nullptr) {
    json["speedup"] = effect->speedup;
    json["lower"] = effect->lower;
    json["upper"] = effect->upper;
    json["median"] = effect->median;
    json["standard_error"] = effect->standard_error;
    json["degrees"] = effect->degrees;
  }
  json["pairs"] = Json::array();
  for (const auto& pair : timing.pairs) {
    Json blocks = Json::array();
    for (const auto& block : pair) blocks.push_back(block);
    json["pairs"].push_back(blocks);
  }
  json["interleaved"] = timing.interleaved;
  json["peak_bytes"] = {timing.peak_bytes_compiled, timing.peak_bytes_stitched};
  json["first_call_s"] = {timing.first_call_compiled_s, timing.first_call_stitched_s};
  return DumpJson(json);
}

}  // namespace

double LogSigma(const std::vector<double>& times) {
  std::vector<double> logs;
  for (double time : times)
    if (time > 0) logs.push_back(std::log(time));
  if (logs.size() < 2) return 0;
  return std::sqrt(SumOfSquares(logs) / static_cast<double>(logs.size() - 1));
}

Result<PerformanceEffect> ComputeEffect(const ModelTiming& timing, const PerformanceRule& rule) {
  std::vector<double> pair_means, all;
  double within_squares = 0;
  for (const auto& pair : timing.pairs) {
    std::vector<double> ratios;
    for (const auto& [a1, b1, b2, a2] : pair) {
      if (!(a1 > 0 && b1 > 0 && b2 > 0 && a2 > 0)) {
        return Fail(ErrorKind::kInternal, "no_samples",
                    fmt::format("found a time of {}, {}, {} or {} us in a block, wanted four "
                                "positive ones",
                                a1, b1, b2, a2));
      }
      ratios.push_back(0.5 * (std::log(a1) + std::log(a2) - std::log(b1) - std::log(b2)));
    }
    if (ratios.empty()) continue;
    pair_means.push_back(Mean(ratios));
    within_squares += SumOfSquares(ratios);
    all.insert(all.end(), ratios.begin(), ratios.end());
  }
  if (all.empty())
    return Fail(ErrorKind::kInternal, "no_samples", "found no block, wanted at least one");

  double pairs = static_cast<double>(pair_means.size());
  double blocks = static_cast<double>(all.size());
  double mean = Mean(pair_means);
  double within_degrees = blocks - pairs;
  double within = within_degrees > 0 ? within_squares / within_degrees / blocks : 0;
  double between_degrees = pairs - 1;
  double between = between_degrees > 0 ? SumOfSquares(pair_means) / between_degrees / pairs : 0;

  PerformanceEffect effect;
  effect.pairs = static_cast<int>(pairs);
  effect.blocks = static_cast<int>(blocks);
  double variance = 0;
  if (rule.process_samples >= 3 && within_degrees > 0) {
    // Each pair has two processes; their spread is known from the doctor. What
    // the pairs show beyond that is added, with the few degrees that it has.
    double process_degrees = rule.process_samples - 1;
    double process = 2 * rule.process_sigma * rule.process_sigma / pairs;
    double excess = std::max(0.0, between - within - process);
    variance = within + process + excess;
    double denominator = within * within / within_degrees + process * process / process_degrees +
                         (excess > 0 ? excess * excess / between_degrees : 0);
    effect.degrees = denominator > 0 ? variance * variance / denominator : within_degrees;
  } else {
    // Nothing is known of the processes but these pairs.
    variance = std::max(within, between);
    effect.degrees = std::max(1.0, between_degrees);
    if (between_degrees <= 0) variance = std::numeric_limits<double>::infinity();
  }
  effect.standard_error = std::sqrt(variance);
  double reach =
      variance > 0 ? StudentTQuantile(rule.confidence, effect.degrees) * effect.standard_error : 0;
  effect.speedup = std::exp(mean);
  effect.lower = std::exp(mean - reach);
  effect.upper = std::exp(mean + reach);
  effect.median = std::exp(Median(all));
  return effect;
}

Verdict JudgePerformance(const ModelTiming& timing, const PerformanceRule& rule) {
  auto effect = ComputeEffect(timing, rule);
  if (!effect) {
    return Reject(Gate::kPerformance, "no_samples", effect.error().message,
                  Evidence(timing, nullptr));
  }
  std::string evidence = Evidence(timing, &*effect);
  std::string measured =
      fmt::format("{:.4f}x [{:.4f}, {:.4f}]", effect->speedup, effect->lower, effect->upper);
  if (!(effect->lower > 1)) {
    return Reject(Gate::kPerformance, "not_faster",
                  fmt::format("measured {}; the lower {:.0f} % bound must be above 1", measured,
                              100 * rule.confidence),
                  evidence);
  }
  if (!(effect->median >= 1 + rule.min_gain)) {
    return Reject(Gate::kPerformance, "gain_too_small",
                  fmt::format("the median gain is {:.2f} %, wanted at least {:.2f} %",
                              100 * (effect->median - 1), 100 * rule.min_gain),
                  evidence);
  }
  double allowed = rule.max_memory_ratio * static_cast<double>(timing.peak_bytes_compiled);
  if (static_cast<double>(timing.peak_bytes_stitched) > allowed) {
    return Reject(
        Gate::kPerformance, "more_memory",
        fmt::format("peak memory is {} bytes, the compiler's model needs {}; at most {} "
                    "times as much is allowed",
                    timing.peak_bytes_stitched, timing.peak_bytes_compiled, rule.max_memory_ratio),
        evidence);
  }
  return Accept(Gate::kPerformance, fmt::format("faster: {}", measured), evidence);
}

}  // namespace kernelopt
