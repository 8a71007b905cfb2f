// One candidate through the gates with fakes: no process, no GPU, no sleep.
#include "pipeline/try.h"

#include <gmock/gmock.h>

#include "inductor/splice.h"
#include "pipeline/records.h"
#include "pipeline/try_file.h"
#include "testing/model_bench.h"

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using testing::FakeJudge;
using ::testing::HasSubstr;

constexpr const char* kRelu = "triton_poi_fused_relu_0";

/// A run that has its capture, and candidates for its relu.
class TryTest : public ::testing::Test, public ModelBench {
 protected:
  void SetUp() override {
    Environment environment = bench_.MakeEnvironment();
    kernelopt::Run run(Options(), bench_.store->Folder());
    Status estimated = EstimateOnly(environment, run);
    ASSERT_TRUE(estimated) << estimated.error().ToString();
    text_ = KernelText(testing::PointwiseKernel());
  }

  std::string File(const std::string& text) {
    std::string path = bench_.folder / "candidate.py";
    EXPECT_TRUE(WriteFileAtomic(path, text));
    return path;
  }

  Result<Trial> Try(const std::string& text, const std::string& kernel = kRelu) {
    Environment environment = bench_.MakeEnvironment();
    run_ = std::make_unique<kernelopt::Run>(Options(), bench_.store->Folder());
    return TryCandidate(environment, *run_, kernel, File(text));
  }

  /// "text ok", "screen wrong_value", ...
  static std::vector<std::string> Story(const Trial& trial) {
    std::vector<std::string> story;
    for (const TrialVerdict& told : trial.verdicts) {
      story.push_back(told.stage + " " + told.verdict.reason);
    }
    return story;
  }

  std::string text_;
};

TEST_F(TryTest, AGoodOneGoesThroughAllGates) {
  auto trial = Try("# by hand\n# Configuration: XBLOCK=512 warps=2\n\n" + text_);
  ASSERT_TRUE(trial) << trial.error().ToString();
  EXPECT_TRUE(trial->accepted) << trial->message;
  EXPECT_THAT(Story(*trial), ElementsAre("text ok", "binary ok", "screen ok", "certify ok",
                                         "model ok", "model ok"));
  EXPECT_EQ(trial->gates, 4);
  EXPECT_EQ(trial->label, "bitwise");
  EXPECT_EQ(trial->verdicts[0].configuration, "XBLOCK=512 warps=2 stages=1");
  EXPECT_LT(trial->time_us, trial->baseline_us);
  EXPECT_EQ(checks_, 1);
  EXPECT_THAT(ClosingLines(*run_, *trial), HasSubstr("accepted by all gates, bitwise"));
  // Recorded: every verdict that has a name can be found by it.
  int found = 0;
  for (const TrialVerdict& told : trial->verdicts) {
    for (const std::string& kernel : {trial->key, std::string()}) {
      auto records = bench_.store->AllVerdicts(kernel);
      for (const VerdictRecord& record : *records) {
        found += VerdictName(record.key) == told.name;
      }
    }
  }
  EXPECT_GE(found, 5);
  EXPECT_TRUE(bench_.store->FindReplacement(trial->replacement)->has_value());
}

TEST_F(TryTest, TheFastestConfigurationGoesOn) {
  auto trial =
      Try("# Configuration: XBLOCK=1024\n# Configuration: XBLOCK=512\n"
          "# Configuration: XBLOCK=512\n\n" +
          text_);
  ASSERT_TRUE(trial) << trial.error().ToString();
  EXPECT_TRUE(trial->accepted) << trial->message;
  auto certified = std::ranges::find(trial->verdicts, "certify", &TrialVerdict::stage);
  ASSERT_NE(certified, trial->verdicts.end());
  EXPECT_EQ(certified->configuration, "XBLOCK=512 warps=4 stages=1");
  EXPECT_EQ(std::ranges::count(trial->verdicts, "screen", &TrialVerdict::stage), 2);
}

TEST_F(TryTest, EachGateRejectsWithItsReason) {
  struct {
    const char* name;
    std::function<void()> set_up;
    std::string text;
    const char* reason;
    int gate;
  } const cases[] = {
      {"text", [] {}, "import os\n" + text_, "import", 1},
      {"entry", [] {}, Replaced(text_, "relu_0", "relu_1"), "missing_entry", 1},
      {"compile",
       [this] {
         bench_.compiler.fail = [](const CompileRequest& request) -> std::optional<Error> {
           if (request.source.find("tmp9") == std::string::npos) return std::nullopt;
           return Error{ErrorKind::kUsage, "compile_error", "no tmp9", ""};
         };
       },
       Replaced(text_, "tmp0", "tmp9"), "compile_error", 1},
      {"screen",
       [this] {
         bench_.judge.check = [](const CheckJob& job) -> Result<CheckResult> {
           bool own = job.candidate.cubin_path == job.baseline.cubin_path;
           return own ? FakeJudge::PassingCheck(job) : FakeJudge::FailingCheck("wrong_value");
         };
       },
       Replaced(text_, "tmp0", "tmp7"), "wrong_value", 2},
      {"certify",
       [this] {
         bench_.judge.check = [](const CheckJob& job) -> Result<CheckResult> {
           return job.guard_pages ? FakeJudge::FailingCheck("wrote_outside")
                                  : FakeJudge::PassingCheck(job);
         };
       },
       Replaced(text_, "tmp0", "tmp6"), "wrote_outside", 2},
      {"model",
       [this] {
         bench_.judge.check = [](const CheckJob& job) -> Result<CheckResult> {
           return FakeJudge::PassingCheck(job);
         };
         wrong_in_model_ = kRelu;
       },
       Replaced(text_, "tmp0", "tmp5"), "wrong_value", 3},
      {"time", [this] { wrong_in_model_.clear(), model_gain_us_ = 0.001; },
       Replaced(text_, "tmp0", "tmp4"), "gain_too_small", 4},
  };
  for (const auto& item : cases) {
    item.set_up();
    auto trial = Try(item.text);
    ASSERT_TRUE(trial) << item.name << ": " << trial.error().ToString();
    EXPECT_FALSE(trial->accepted) << item.name;
    EXPECT_EQ(trial->reason, item.reason) << item.name << ": " << trial->message;
    EXPECT_EQ(trial->gates, item.gate) << item.name;
    EXPECT_EQ(trial->replacement.size(), 64u) << item.name;
    EXPECT_THAT(ClosingLines(*run_, *trial), HasSubstr(item.reason)) << item.name;
  }
}

TEST_F(TryTest, WhatDoesNotAcceptTheCompilersKernelJudgesNothing) {
  bench_.judge.check = [](const CheckJob&) -> Result<CheckResult> {
    return FakeJudge::FailingCheck("not_deterministic");
  };
  auto trial = Try(Replaced(text_, "tmp0", "tmp8"));
  ASSERT_TRUE(trial) << trial.error().ToString();
  EXPECT_EQ(trial->reason, "not_certifiable");
}

TEST_F(TryTest, WithoutAJudgeOnlyGate1Speaks) {
  RunOptions options;
  options.recording = RunPaths(bench_.store->Folder()).Capture();
  Environment environment = bench_.MakeEnvironment();
  environment.judge = nullptr;
  environment.model = nullptr;
  kernelopt::Run run(options, bench_.store->Folder());
  auto trial = TryCandidate(environment, run, kRelu, File(text_));
  ASSERT_TRUE(trial) << trial.error().ToString();
  EXPECT_TRUE(trial->accepted);
  EXPECT_EQ(trial->gates, 1);
  EXPECT_THAT(ClosingLines(run, *trial), HasSubstr("gates 2 to 4 need a GPU"));
}

TEST_F(TryTest, ErrorsAreAboutTheRunOrTheFile) {
  EXPECT_EQ(Try(text_, "nothing").error().code, "no_such_kernel");
  EXPECT_EQ(Try(text_, "triton_poi").error().code, "ambiguous_kernel");
  EXPECT_EQ(Try("# Configuration: XBLOCK=0\n\n" + text_).error().code, "bad_configuration");
  std::filesystem::remove_all(RunPaths(bench_.store->Folder()).Capture());
  EXPECT_EQ(Try(text_).error().code, "no_capture");
}

TEST_F(TryTest, ACapturedBinaryThatIsNotMadeHereIsAnError) {
  std::string path = RunPaths(bench_.store->Folder()).Capture() + "/capture.json";
  std::string text = *ReadFile(path);
  ASSERT_TRUE(WriteFileAtomic(
      path, Replaced(text, R"("binary_hash":"")", R"("binary_hash":")" + Sha256Hex("x") + "\"")));
  EXPECT_EQ(Try(text_).error().code, "baseline_differs");
}

TEST(TryFileTest, ReadsConfigurations) {
  Kernel kernel = testing::PointwiseKernel();
  LaunchConfig own = testing::PointwiseConfig(1024, 4);
  SearchSubject subject{"key", &kernel, {testing::PointwiseSite("site", own)}};
  struct {
    const char* text;
    std::vector<std::string> configurations;  ///< empty: an error
    const char* error;
  } const cases[] = {
      {"x\n", {"XBLOCK=1024 warps=4 stages=1"}, ""},
      {"# a comment\n\nx\n", {"XBLOCK=1024 warps=4 stages=1"}, ""},
      {"# Configuration: warps=8\n\nx\n", {"XBLOCK=1024 warps=8 stages=1"}, ""},
      {"# Configuration: XBLOCK=64\n#   warps=8 maxnreg=40\n# Proven: bitwise.\n\nx\n",
       {"XBLOCK=64 warps=8 stages=1 maxnreg=40"},
       ""},
      {"# Configuration: warps=8\n# Configuration: warps=2\n# Configuration: warps=8\n\nx\n",
       {"XBLOCK=1024 warps=8 stages=1", "XBLOCK=1024 warps=2 stages=1"},
       ""},
      {"\n# Configuration: warps=8\nx\n", {"XBLOCK=1024 warps=4 stages=1"}, ""},
      {"# Configuration: YBLOCK=8\n\nx\n", {}, "c.py:1"},
      {"# a\n# Configuration: warps\n\nx\n", {}, "c.py:2"},
      {"# Configuration: warps=\n\nx\n", {}, "'warps='"},
      {"# Configuration: warps=8.5\n\nx\n", {}, "'warps=8.5'"},
      {"# Configuration: XBLOCK=-64\n\nx\n", {}, "above 0"},
      {"# Configuration: XBLOCK=99999999999\n\nx\n", {}, "NAME=NUMBER"},
  };
  for (const auto& item : cases) {
    auto candidates = ReadCandidates(item.text, "c.py", subject);
    if (item.configurations.empty()) {
      ASSERT_FALSE(candidates) << item.text;
      EXPECT_THAT(candidates.error().ToString(), HasSubstr(item.error));
      continue;
    }
    ASSERT_TRUE(candidates) << item.text << candidates.error().ToString();
    std::vector<std::string> found;
    for (const Replacement& candidate : *candidates) {
      found.push_back(candidate.steps[0].config.ToString());
      EXPECT_THAT(candidate.steps[0].kernel_text, HasSubstr("x\n"));
    }
    EXPECT_EQ(found, item.configurations) << item.text;
  }
}

}  // namespace
}  // namespace kernelopt
