#include "gates/static_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "inductor/module.h"

namespace kernelopt {
namespace {

using ::testing::HasSubstr;

Kernel Live() {
  Kernel kernel;
  kernel.name = kernel.entry = "k";
  kernel.arguments = {{"p", "", "*fp32"}};
  return kernel;
}

Replacement DropIn() {
  Replacement replacement;
  replacement.steps.resize(1);
  replacement.steps[0].kernel_text = "@triton.jit\ndef k(p):\n    tl.store(p, 1)\n";
  return replacement;
}

TEST(StaticGateTest, AcceptsADropIn) {
  Verdict verdict = JudgeText(DropIn(), Live(), "3.6.0");
  EXPECT_TRUE(verdict.accepted) << verdict.message;
  EXPECT_EQ(verdict.gate, Gate::kStatic);
}

TEST(StaticGateTest, RefusesOtherFormsAndTexts) {
  const std::pair<const char*, std::function<void(Replacement&)>> cases[] = {
      {"unsupported_form", [](Replacement& r) { r.form = ReplacementForm::kCallObject; }},
      {"unsupported_form", [](Replacement& r) { r.steps.emplace_back(r.steps[0]); }},
      {"unsupported_form", [](Replacement& r) { r.steps.clear(); }},
      {"unsupported_form", [](Replacement& r) { r.workspaces.resize(1); }},
      {"unsupported_form", [](Replacement& r) { r.steps[0].cooperative = true; }},
      {"unsupported_form", [](Replacement& r) { r.steps[0].grid[0] = "xnumel"; }},
      {"unsupported_form", [](Replacement& r) { r.steps[0].config.num_ctas = 2; }},
      {"import", [](Replacement& r) { r.steps[0].kernel_text += "import os\n"; }},
  };
  for (const auto& [reason, change] : cases) {
    Replacement replacement = DropIn();
    change(replacement);
    EXPECT_EQ(JudgeText(replacement, Live(), "3.6.0").reason, reason);
  }
  Replacement two = DropIn();
  two.steps[0].kernel_text = "import os\n" + two.steps[0].kernel_text + "x = 1\n";
  Verdict verdict = JudgeText(two, Live(), "3.6.0");
  EXPECT_THAT(verdict.message, HasSubstr("1:1: "));
  EXPECT_THAT(verdict.message, HasSubstr("(and 1 more)"));
  EXPECT_THAT(verdict.evidence, HasSubstr("top_level_statement"));
}

CompileOutput OutputOf(const std::string& name) {
  CompileOutput compiled;
  compiled.ttir_path = compiled.ptx_path =
      std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/" + name + ".ttir";
  compiled.record.threads = 128;
  return compiled;
}

TEST(StaticGateTest, ReadsWhatWasCompiled) {
  DeviceFacts device;
  device.shared_bytes_per_block = 1 << 17;
  const auto judge = [&](const CompileOutput& candidate, const std::string& baseline_name) {
    const CompileOutput baseline = OutputOf(baseline_name);
    Kernel kernel = Live();
    kernel.arguments = {
        {"a", "", "*fp32"}, {"b", "", "*bf16"}, {"c", "", "*bf16"}, {"n", "", "i32"}};
    return JudgeBinary({.kernel = &kernel,
                        .baseline_config = {},
                        .candidate_config = {},
                        .baseline = &baseline,
                        .candidate = &candidate},
                       {}, device);
  };
  EXPECT_TRUE(judge(OutputOf("pointwise"), "pointwise").accepted);
  EXPECT_EQ(judge(OutputOf("pointwise"), "reduction").reason, "narrower_rounding");
  EXPECT_EQ(judge(OutputOf("nothing"), "reduction").reason, "no_such_file");
  CompileOutput unreadable = OutputOf("reduction");
  unreadable.ttir_path = std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/make_fixtures.py";
  EXPECT_EQ(judge(unreadable, "reduction").reason, "unreadable_ttir");
}

TEST(StaticGateTest, NamesFailedCompiles) {
  EXPECT_EQ(CompileFailure({ErrorKind::kUsage, "compile_error", "bad", ""}).reason,
            "compile_error");
  EXPECT_EQ(CompileFailure({ErrorKind::kUsage, "timeout", "long", ""}).reason, "compile_timeout");
}

}  // namespace
}  // namespace kernelopt
