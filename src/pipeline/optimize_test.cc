// The whole pipeline on a capture of two kernels, with fakes for the judge,
// the compile workers and the model worker: no process, no GPU, no sleep.
#include "pipeline/optimize.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "testing/model_bench.h"

namespace kernelopt {
namespace {

using testing::FakeJudge;
using ::testing::HasSubstr;

class OptimizeTest : public ::testing::Test, public ModelBench {};

TEST_F(OptimizeTest, ProvenKernelsBecomeAPack) {
  auto outcome = Optimize(Options());
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_EQ(outcome->result, "improved") << outcome->message;
  EXPECT_THAT(outcome->message, HasSubstr("2 kernels replaced"));
  auto pack = CheckPack(run_->pack);
  ASSERT_TRUE(pack) << pack.error().ToString();
  ASSERT_EQ(pack->kernels.size(), 2u);
  EXPECT_TRUE(pack->preview);
  EXPECT_EQ(pack->kernels[0].replacement.steps[0].config.constexprs.at("XBLOCK"), 256);
  ASSERT_EQ(pack->variants.size(), 1u);
  ASSERT_TRUE(pack->variants[0].speedup);
  EXPECT_GT(pack->variants[0].speedup->lo, 1);
  EXPECT_TRUE(std::filesystem::exists(run_->paths.Report()));
  EXPECT_THAT(ClosingLines(*run_, *outcome), HasSubstr(run_->pack));
}

TEST_F(OptimizeTest, TheSameCommandAgainMeasuresNothing) {
  auto first = Optimize(Options());
  ASSERT_TRUE(first);
  std::string message = first->message;
  bench_.Reopen();
  bench_.judge.times.clear();
  bench_.judge.checks.clear();
  captures_ = checks_ = timings_ = 0;
  auto again = Optimize(Options());
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(again->message, message);
  EXPECT_EQ(captures_, 0);
  EXPECT_EQ(bench_.judge.times.size(), 0u);
  EXPECT_EQ(bench_.judge.checks.size(), 0u);
  EXPECT_EQ(checks_, 0);
  EXPECT_EQ(timings_, 0);
}

TEST_F(OptimizeTest, AKilledAndResumedRunEndsTheSame) {
  auto whole = Optimize(Options());
  ASSERT_TRUE(whole) << whole.error().ToString();
  const size_t jobs = bench_.judge.times.size();
  ASSERT_GT(jobs, 10u);
  for (size_t stop_at : {size_t{1}, jobs / 2, jobs - 1}) {
    ModelBench killed;
    bool stopped_once = false;
    killed.bench_.judge.time_us = [&](const Program& program, const Site& site) {
      if (killed.bench_.judge.times.size() >= stop_at && !stopped_once) {
        stopped_once = killed.bench_.cancelled = true;
      }
      return killed.TimeOf(program, site);
    };
    auto stopped = killed.Optimize(killed.Options());
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
    killed.bench_.Reopen();
    killed.bench_.cancelled = false;
    auto resumed = killed.Optimize(killed.Options());
    ASSERT_TRUE(resumed) << resumed.error().ToString();
    EXPECT_EQ(resumed->message, whole->message) << "stopped at " << stop_at;
    for (const auto& [key, result] : run_->results) {
      EXPECT_EQ(killed.run_->results.at(key).outcome.message, result.outcome.message);
    }
    EXPECT_EQ(killed.bench_.judge.times.size(), jobs) << "nothing was asked twice";
    EXPECT_EQ(killed.captures_, 1);
  }
}

TEST_F(OptimizeTest, ABlamedKernelIsDroppedAndTheOtherStays) {
  wrong_in_model_ = "triton_poi_fused_neg_1";
  auto outcome = Optimize(Options());
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_EQ(outcome->result, "improved") << outcome->message;
  auto pack = CheckPack(run_->pack);
  ASSERT_TRUE(pack);
  ASSERT_EQ(pack->kernels.size(), 1u);
  EXPECT_EQ(pack->kernels[0].name, "triton_poi_fused_relu_0");
}

TEST_F(OptimizeTest, KeptWhenTheModelIsNotFaster) {
  model_gain_us_ = 0.001;
  auto outcome = Optimize(Options());
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_EQ(outcome->result, "kept");
  EXPECT_THAT(outcome->reason, ::testing::AnyOf("not_faster", "gain_too_small"));
  EXPECT_TRUE(run_->pack.empty());
}

TEST_F(OptimizeTest, KeptWhenNothingCouldBeGained) {
  bench_.judge.speeds = {10, 10, 1.5};  // so slow a memory that the floor is above the time
  auto outcome = Optimize(Options());
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_EQ(outcome->reason, "nothing_worthwhile");
  EXPECT_THAT(outcome->message, HasSubstr("70.0 %"));
  EXPECT_EQ(bench_.judge.times.size(), 0u);
}

TEST_F(OptimizeTest, KeptWhenThereIsNoGraph) {
  no_graph_ = true;
  auto outcome = Optimize(Options());
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_EQ(outcome->reason, "no_graph");
  EXPECT_THAT(outcome->message, HasSubstr("3 graph breaks"));
}

TEST_F(OptimizeTest, KeptWhenCertificationFails) {
  bench_.judge.check = [](const CheckJob& job) -> Result<CheckResult> {
    if (job.guard_pages) return FakeJudge::FailingCheck("wrote_outside");
    return FakeJudge::PassingCheck(job);
  };
  auto outcome = Optimize(Options());
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_EQ(outcome->reason, "not_certified");
  EXPECT_THAT(outcome->message, HasSubstr("wrote_outside"));
  EXPECT_EQ(checks_, 0) << "nothing went into the model";
}

TEST_F(OptimizeTest, VariantsThatShareAModuleAreDecidedTogether) {
  RunOptions options = Options();
  options.modes = {"default", "reduce-overhead"};
  auto outcome = Optimize(options);
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_EQ(outcome->result, "improved") << outcome->message;
  EXPECT_THAT(outcome->message, HasSubstr("reduce-overhead"));
  auto pack = CheckPack(run_->pack);
  ASSERT_TRUE(pack);
  EXPECT_EQ(pack->variants.size(), 2u);
  EXPECT_EQ(pack->kernels.size(), 2u);
  EXPECT_EQ(checks_, 2);
}

TEST_F(OptimizeTest, UntestedVersionsAreRefused) {
  torch_ = "2.8.0";
  auto outcome = Optimize(Options());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, "unsupported_version");
  EXPECT_EQ(outcome.error().kind, ErrorKind::kEnvironment);
}

TEST_F(OptimizeTest, AnotherGpuThanTorchIsRefused) {
  auto hello = bench_.model.hello;
  bench_.model.hello = [&]() -> Result<Json> {
    Json answer = *hello();
    answer["device"]["uuid"] = "GPU-another";
    return answer;
  };
  auto outcome = Optimize(Options());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, "gpu_mismatch");
}

TEST_F(OptimizeTest, EagerThatBeatsTheCompilerIsSaid) {
  bench_.model.capture = [this](const ModelSpec&, const std::vector<VariantSpec>& variants,
                                const std::string& folder) -> Status {
    WriteCapture(variants, folder);
    std::string text = KOPT_TRY(ReadFile(folder + "/capture.json"));
    return WriteFileAtomic(folder + "/capture.json",
                           Replaced(text, "\"eager_us\":150.0", "\"eager_us\":20.0"));
  };
  auto outcome = Optimize(Options());
  ASSERT_TRUE(outcome) << outcome.error().ToString();
  EXPECT_THAT(outcome->note, HasSubstr("compile loses to eager"));
}

}  // namespace
}  // namespace kernelopt
