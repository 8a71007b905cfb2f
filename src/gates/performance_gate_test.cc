#include "gates/performance_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "gates/student_t.h"
#include "workers/model.h"

namespace kernelopt {
namespace {

TEST(StudentTTest, MatchesSciPy) {
  // scipy.stats.t.ppf and .cdf, SciPy 1.16.
  struct {
    double p, degrees, t;
  } const quantiles[] = {
      {0.9, 1, 3.0776835371752544},      {0.9, 3.7, 1.5575658388615072},
      {0.95, 2, 2.9199855803537242},     {0.95, 30.5, 1.6963751158527451},
      {0.99, 1, 31.820515953773935},     {0.99, 2, 6.9645567342832715},
      {0.99, 3.7, 3.9205078192085483},   {0.99, 7, 2.9979515668685277},
      {0.99, 14, 2.624494067590051},     {0.99, 200, 2.345137082259468},
      {0.99, 100000, 2.326385165355268}, {0.995, 7, 3.4994832973504924},
      {0.9999, 1, 3183.098757118502},    {0.9999, 14, 4.985013157719529},
  };
  for (const auto& [p, degrees, t] : quantiles) {
    EXPECT_NEAR(StudentTQuantile(p, degrees) / t, 1, 1e-8) << p << " " << degrees;
    EXPECT_NEAR(StudentTQuantile(1 - p, degrees) / -t, 1, 1e-8) << p << " " << degrees;
    EXPECT_NEAR(StudentTCdf(t, degrees), p, 1e-10);
  }
  EXPECT_EQ(StudentTQuantile(0.5, 3), 0);
  EXPECT_NEAR(StudentTCdf(0.3, 1), 0.5927735790777423, 1e-12);
  EXPECT_NEAR(StudentTCdf(2.5, 4), 0.966616727594006, 1e-12);
  EXPECT_NEAR(StudentTCdf(-1.7, 9.3), 0.061129610029642616, 1e-12);
  EXPECT_NEAR(StudentTCdf(40, 1), 0.9920439100879742, 1e-12);
  EXPECT_NEAR(StudentTCdf(-8, 60) / 2.450132573975106e-11, 1, 1e-8);
}

ModelTiming Timing(double speedup, double process_sigma, double block_sigma, int pairs, int blocks,
                   std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  ModelTiming timing;
  for (int p = 0; p < pairs; ++p) {
    double a = 1000 * std::exp(process_sigma * normal(random));
    double b = 1000 / speedup * std::exp(process_sigma * normal(random));
    auto noise = [&] { return std::exp(block_sigma * normal(random)); };
    timing.pairs.emplace_back();
    for (int i = 0; i < blocks; ++i)
      timing.pairs.back().push_back({a * noise(), b * noise(), b * noise(), a * noise()});
  }
  timing.peak_bytes_compiled = timing.peak_bytes_stitched = 1000;
  return timing;
}

PerformanceRule RuleFrom(double sigma, int samples, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) times.push_back(1000 * std::exp(sigma * normal(random)));
  PerformanceRule rule;
  rule.process_sigma = LogSigma(times);
  rule.process_samples = samples;
  return rule;
}

TEST(PerformanceGateTest, AcceptsAClearGain) {
  std::mt19937_64 random(1);
  Verdict verdict =
      JudgePerformance(Timing(1.1, 0.002, 0.003, 2, 8, random), RuleFrom(0.002, 10, random));
  EXPECT_TRUE(verdict.accepted) << verdict.message;
  EXPECT_EQ(verdict.gate, Gate::kPerformance);
  auto evidence = ParseJson(verdict.evidence, "evidence");
  ASSERT_TRUE(evidence.has_value());
  EXPECT_NEAR((*evidence)["speedup"].get<double>(), 1.1, 0.02);
  EXPECT_EQ((*evidence)["pairs"].size(), 2u);
}

TEST(PerformanceGateTest, RejectsWithItsReason) {
  std::mt19937_64 random(2);
  PerformanceRule rule = RuleFrom(0.001, 10, random);
  auto reason = [&](ModelTiming timing) { return JudgePerformance(timing, rule).reason; };
  EXPECT_EQ(reason(Timing(0.95, 0.001, 0.001, 2, 8, random)), "not_faster");
  EXPECT_EQ(reason(Timing(1.0001, 0.001, 0.002, 2, 8, random)), "not_faster");
  rule.process_sigma = 1e-5;
  EXPECT_EQ(reason(Timing(1.003, 1e-5, 1e-5, 2, 8, random)), "gain_too_small");
  EXPECT_EQ(reason(ModelTiming{}), "no_samples");
  ModelTiming broken = Timing(1.1, 0.001, 0.001, 2, 8, random);
  broken.pairs[1][3][2] = 0;
  EXPECT_EQ(reason(broken), "no_samples");
  ModelTiming large = Timing(1.1, 1e-5, 1e-5, 2, 8, random);
  large.peak_bytes_stitched = 1011;
  EXPECT_EQ(reason(large), "more_memory");
  large.peak_bytes_stitched = 1010;
  EXPECT_EQ(reason(large), "ok");
}

TEST(PerformanceGateTest, OnePairProvesNothingWithoutTheDoctor) {
  std::mt19937_64 random(3);
  ModelTiming timing = Timing(2.0, 0, 0.001, 1, 20, random);
  EXPECT_EQ(JudgePerformance(timing, PerformanceRule{}).reason, "not_faster");
  EXPECT_TRUE(JudgePerformance(timing, RuleFrom(0.002, 8, random)).accepted);
}

/// The share of accepted A/A runs must stay near the 1 % that the bound
/// promises, in each state of knowledge; and a gain must be found mostly.
TEST(PerformanceGateTest, AcceptsFewRunsOfEqualModels) {
  struct {
    double process, block;
    int pairs, blocks, doctor;
  } const cases[] = {{0.003, 0.004, 2, 8, 12},
                     {0.0, 0.004, 2, 8, 12},
                     {0.006, 0.001, 2, 8, 8},
                     {0.003, 0.004, 6, 1, 0},
                     {0.003, 0.004, 3, 8, 0}};
  std::mt19937_64 random(4);
  for (const auto& c : cases) {
    int accepted = 0, found = 0;
    constexpr int kRuns = 1500;
    auto faster = [&](double speedup) {
      PerformanceRule rule =
          c.doctor > 0 ? RuleFrom(c.process, c.doctor, random) : PerformanceRule{};
      return ComputeEffect(Timing(speedup, c.process, c.block, c.pairs, c.blocks, random), rule)
                 ->lower > 1;
    };
    for (int run = 0; run < kRuns; ++run) {
      accepted += faster(1.0);
      if (run % 10 == 0) found += faster(1.2);
    }
    EXPECT_LE(accepted, kRuns * 0.02) << c.process << " " << c.pairs << " " << c.doctor;
    EXPECT_GE(found, kRuns / 10 * 0.9) << c.process << " " << c.pairs << " " << c.doctor;
  }
}

}  // namespace
}  // namespace kernelopt
