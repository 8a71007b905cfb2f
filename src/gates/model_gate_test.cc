#include "gates/model_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "workers/model.h"

namespace kernelopt {
namespace {

using ::testing::HasSubstr;

TensorComparison Tensor() {
  TensorComparison tensor;
  tensor.name = "output 0";
  tensor.dtype = "float32";
  tensor.has_float64 = true;
  tensor.rms_stitched = 0.5, tensor.rms_compiled = 0.4, tensor.rms_eager = 0.5;
  tensor.max_stitched = 3, tensor.max_compiled = 2.5, tensor.max_eager = 3;
  return tensor;
}

ModelCheck Check() {
  ModelCheck check;
  check.swapped = {"k1", "k2"};
  check.externs_compiled = check.externs_stitched = {"aten.mm.out", "aten.convolution"};
  ModelComparison strict;
  strict.setting = "strict";
  strict.data = "user";
  strict.tensors = {Tensor()};
  ModelComparison as_set = strict;
  as_set.setting = "as_set";
  check.comparisons = {as_set, strict};
  for (const char* name : {"1", "2"}) {
    InSituComparison launch;
    launch.kernel = std::string("triton_") + name;
    launch.key = std::string("k") + name;
    launch.launches = 3;
    launch.bitwise_equal = false;
    launch.max_z = 7, launch.rms_z = 0.4;
    check.in_situ.push_back(launch);
  }
  check.launches = {{"compiled", {{"triton_1", 3}, {"triton_2", 1}, {"gemm", 4}}},
                    {"stitched", {{"triton_1__kopt", 3}, {"triton_2__kopt", 1}, {"gemm", 4}}}};
  return check;
}

ModelRule Rule() {
  ModelRule rule;
  rule.expected_swaps = {"k2", "k1"};
  return rule;
}

TEST(ModelGateTest, AcceptsARightModel) {
  Verdict verdict = JudgeModel(Check(), Rule());
  EXPECT_TRUE(verdict.accepted) << verdict.message;
  EXPECT_EQ(verdict.gate, Gate::kModel);
  EXPECT_TRUE(ParseJson(verdict.evidence, "evidence").has_value());
}

TEST(ModelGateTest, TheCompilersOwnErrorsInSituAreAllowed) {
  ModelCheck check = Check();
  check.in_situ[1].max_z = 15.9, check.in_situ[1].own_z = 5;
  EXPECT_TRUE(JudgeModel(check, Rule()).accepted);
}

struct Case {
  const char* reason;
  std::function<void(ModelCheck&)> change;
};

TEST(ModelGateTest, RejectsWithItsReason) {
  auto strict = [](ModelCheck& c) -> TensorComparison& { return c.comparisons[1].tensors[0]; };
  auto as_set = [](ModelCheck& c) -> TensorComparison& { return c.comparisons[0].tensors[0]; };
  const Case cases[] = {
      {"not_swapped", [](ModelCheck& c) { c.swapped = {"k1"}; }},
      {"not_swapped", [](ModelCheck& c) { c.swapped = {}; }},
      {"unexpected_swap", [](ModelCheck& c) { c.swapped.push_back("k3"); }},
      {"externs_changed", [](ModelCheck& c) { c.externs_stitched.pop_back(); }},
      {"externs_changed",
       [](ModelCheck& c) { std::swap(c.externs_stitched[0], c.externs_stitched[1]); }},
      {"degenerate", [](ModelCheck& c) { c.degenerate = true; }},
      {"no_float64", [](ModelCheck& c) { c.float64_path = false; }},
      {"no_float64", [&](ModelCheck& c) { strict(c).has_float64 = false; }},
      {"no_comparisons", [](ModelCheck& c) { c.comparisons.clear(); }},
      {"no_comparisons",
       [](ModelCheck& c) {
         for (auto& comparison : c.comparisons) comparison.tensors.clear();
       }},
      {"no_strict_setting", [](ModelCheck& c) { c.comparisons.pop_back(); }},
      {"layout_changed", [&](ModelCheck& c) { strict(c).same_layout = false; }},
      {"layout_changed", [&](ModelCheck& c) { as_set(c).same_layout = false; }},
      {"wrong_nonfinite", [&](ModelCheck& c) { as_set(c).nonfinite_mismatches = 1; }},
      {"wrong_nonfinite", [&](ModelCheck& c) { strict(c).nonfinite_mismatches = 1; }},
      {"wrong_integer", [&](ModelCheck& c) { strict(c).dtype = "int64"; }},
      {"wrong_value", [&](ModelCheck& c) { strict(c).rms_stitched = 0.86; }},
      {"wrong_value", [&](ModelCheck& c) { strict(c).max_stitched = 10.1; }},
      {"wrong_value", [&](ModelCheck& c) { strict(c).max_stitched = NAN; }},
      {"wrong_value", [&](ModelCheck& c) { strict(c).rms_stitched = INFINITY; }},
      {"compiler_wrong", [&](ModelCheck& c) { strict(c).max_compiled = 40; }},
      {"not_bitwise", [](ModelCheck& c) { c.random = true; }},
      {"not_in_situ", [](ModelCheck& c) { c.in_situ.pop_back(); }},
      {"not_in_situ", [](ModelCheck& c) { c.in_situ[0].launches = 0; }},
      {"not_in_situ", [](ModelCheck& c) { c.in_situ[0].skipped = 3; }},
      {"wrong_in_situ", [](ModelCheck& c) { c.in_situ[1].max_z = 8.1; }},
      {"wrong_in_situ", [](ModelCheck& c) { c.in_situ[1].max_z = 16.1, c.in_situ[1].own_z = 5; }},
      {"wrong_in_situ", [](ModelCheck& c) { c.in_situ[1].max_z = 24.1, c.in_situ[1].own_z = 1e9; }},
      {"wrong_in_situ", [](ModelCheck& c) { c.in_situ[1].max_z = 8.1, c.in_situ[1].own_z = NAN; }},
      {"wrong_in_situ", [](ModelCheck& c) { c.in_situ[1].rms_z = NAN; }},
      {"wrong_in_situ", [](ModelCheck& c) { c.in_situ[0].integer_mismatches = 1; }},
      {"wrong_in_situ", [](ModelCheck& c) { c.in_situ[0].nonfinite_mismatches = 1; }},
      {"no_launch_counts", [](ModelCheck& c) { c.launches.clear(); }},
      {"no_launch_counts",
       [](ModelCheck& c) { c.launches = {{"compiled", {}}, {"stitched", {}}}; }},
      {"launches_changed",
       [](ModelCheck& c) {
         c.launches = {{"compiled", {{"triton_1", 3}}}, {"stitched", {{"triton_1__kopt", 2}}}};
       }},
      {"launches_changed",
       [](ModelCheck& c) {
         c.launches = {{"compiled", {{"triton_1", 3}}}, {"stitched", {{"triton_1", 3}}}};
       }},
  };
  for (const Case& bad : cases) {
    ModelCheck check = Check();
    bad.change(check);
    Verdict verdict = JudgeModel(check, Rule());
    EXPECT_FALSE(verdict.accepted) << bad.reason;
    EXPECT_EQ(verdict.reason, bad.reason) << verdict.message;
  }
}

TEST(ModelGateTest, AcceptsAtTheBoundsAndEqualBits) {
  ModelCheck check = Check();
  check.comparisons[1].tensors[0].rms_stitched = 1.5 * 0.5 + 0.1;
  check.comparisons[1].tensors[0].max_stitched = 3 * 3 + 1;
  EXPECT_TRUE(JudgeModel(check, Rule()).accepted);

  // Under the user's own setting only layout and classes are held.
  check.comparisons[0].tensors[0].max_stitched = 1e6;
  EXPECT_TRUE(JudgeModel(check, Rule()).accepted);

  // Equal bits are right without any float64 error; so for random models.
  check.random = true;
  check.float64_path = false;
  for (auto& comparison : check.comparisons) {
    comparison.tensors[0].bitwise_equal = true;
    comparison.tensors[0].has_float64 = false;
  }
  EXPECT_TRUE(JudgeModel(check, Rule()).accepted) << JudgeModel(check, Rule()).message;
}

TEST(ModelGateTest, AWeakerCheckCountsOnlyWhenAskedFor) {
  ModelCheck check = Check();
  check.float64_path = false;
  for (ModelComparison& comparison : check.comparisons) {
    for (TensorComparison& tensor : comparison.tensors) {
      tensor.has_float64 = tensor.bitwise_equal = false;
      tensor.allclose_1e4 = 1;
    }
  }
  ModelRule rule = Rule();
  EXPECT_EQ(JudgeModel(check, rule).reason, "no_float64");
  rule.allow_weaker = true;
  Verdict verdict = JudgeModel(check, rule);
  EXPECT_TRUE(verdict.accepted) << verdict.message;
  EXPECT_NE(verdict.message.find("weaker"), std::string::npos);
  for (ModelComparison& comparison : check.comparisons) {
    for (TensorComparison& tensor : comparison.tensors) tensor.allclose_1e4 = 0.99;
  }
  EXPECT_EQ(JudgeModel(check, rule).reason, "wrong_value");
}

}  // namespace
}  // namespace kernelopt
