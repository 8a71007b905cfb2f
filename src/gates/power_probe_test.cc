#include "gates/power_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "inductor/module.h"
#include "testing/fakes.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

using testing::FakeCompiler;
using testing::FakeJudge;
using testing::FakeSource;

// out = (in + in) - in, of 100 elements.
constexpr const char* kProbedTtir = R"(module {
  tt.func public @k(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %hundred = arith.constant dense<100> : tensor<128xi32>
    %lane = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %mask = arith.cmpi slt, %lane, %hundred : tensor<128xi32>
    %0 = tt.splat %in : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %1 = tt.addptr %0, %lane : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %x = tt.load %1, %mask : tensor<128x!tt.ptr<f32>>
    %sum = arith.addf %x, %x : tensor<128xf32>
    %rest = arith.subf %sum, %x : tensor<128xf32>
    %2 = tt.splat %out : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %3 = tt.addptr %2, %lane : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %3, %rest, %mask : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
)";

class ManualClock : public Clock {
 public:
  double Seconds() const override { return seconds += step; }
  double UnixSeconds() const override { return 0; }
  mutable double seconds = 0;
  double step = 0;
};

class PowerProbeTest : public ::testing::Test {
 protected:
  PowerProbeTest() {
    kernel_.name = kernel_.entry = "k";
    kernel_.grid_type = "Grid1D";
    kernel_.arguments = {{"in", "", "*fp32"}, {"out", "", "*fp32"}};
    baseline_.ttir_path = folder_.path() + "/baseline.ttir";
    EXPECT_TRUE(WriteFileAtomic(baseline_.ttir_path, kProbedTtir));
    pair_.kernel = &kernel_;
    pair_.baseline_config.constexprs = {{"XBLOCK", 128}};
    pair_.baseline = &baseline_;
    // What a compiler makes of a text is the text.
    compiler_.adjust = [this](const CompileRequest& request, CompileOutput* output) {
      output->ttir_path = folder_.path() + "/" + output->binary_hash + ".ttir";
      EXPECT_TRUE(WriteFileAtomic(output->ttir_path, request.source));
    };
    for (int64_t bytes : {4000, 400}) {
      BuiltSite& site = sites_.emplace_back();
      site.site.name = bytes == 400 ? "small" : "large";
      site.numels = {{"xnumel", bytes / 4}};
      site.site.storages.resize(2);
      for (StorageSpec& storage : site.site.storages) storage.bytes = bytes;
      site.site.storages[1].written = true;
      site.site.arguments.resize(2);
      site.site.arguments[0].storage = 0;
      site.site.arguments[1].storage = 1;
    }
    judge_.check = [](const CheckJob&) { return FakeJudge::FailingCheck("wrong_value"); };
  }

  PowerReport Probe() {
    auto report = ProbePower(judge_, compiler_, 90, pair_, twins_, sites_, {}, clock_, 10);
    EXPECT_TRUE(report) << report.error().ToString();
    return report ? std::move(*report) : PowerReport{};
  }

  TestFolder folder_;
  Kernel kernel_;
  CompileOutput baseline_;
  KernelPair pair_;
  FakeCompiler compiler_;
  TwinMaker twins_{kernel_, pair_.baseline_config, baseline_, 90, compiler_};
  std::vector<BuiltSite> sites_;
  FakeJudge judge_;
  ManualClock clock_;
};

TEST_F(PowerProbeTest, FaultsThatAreCaughtCostOneDataSetEach) {
  const PowerReport report = Probe();
  ASSERT_EQ(report.faults.size(), 4u);  // a mask, two terms, an input
  EXPECT_EQ(report.Count("caught"), 4);
  EXPECT_FALSE(report.HasPassed());
  EXPECT_EQ(report.faults[0].name, "mask_short");
  EXPECT_EQ(report.faults[0].reason, "wrong_value");
  EXPECT_EQ(report.faults[0].family, "normal");
  EXPECT_EQ(judge_.checks.size(), 4u);
  for (const CheckJob& job : judge_.checks) {
    EXPECT_EQ(job.site.name, "small");
    EXPECT_EQ(job.data.size(), 1u);
    EXPECT_TRUE(job.twin);
  }
  EXPECT_EQ(report.ToJson()["caught"], 4);
}

TEST_F(PowerProbeTest, MoreDataIsDrawnForWhatPasses) {
  judge_.check = [](const CheckJob& job) {
    const bool is_mask = FakeSource(job.candidate).find("dense<99>") != std::string::npos;
    if (!is_mask) return FakeJudge::FailingCheck("wrong_value");
    // Only data that no certification draws shows it.
    for (size_t i = 0; i < job.data.size(); ++i) {
      if (job.data[i].seed == 99) {
        return FakeJudge::FailingCheck("not_written", static_cast<int>(i));
      }
    }
    return FakeJudge::PassingCheck(job, false);
  };
  PowerReport report = Probe();
  EXPECT_EQ(report.Count("caught"), 4);
  EXPECT_EQ(report.faults[0].reason, "not_written");

  judge_.check = [](const CheckJob& job) { return FakeJudge::PassingCheck(job, false); };
  report = Probe();
  EXPECT_EQ(report.Count("passed"), 4);
  EXPECT_TRUE(report.HasPassed());
}

// A mask that lets an index out of its range runs into the kernel's own assertion.
TEST_F(PowerProbeTest, FaultsThatCrashOrHangAreCaught) {
  int job = 0;
  judge_.check = [&](const CheckJob&) -> Result<CheckResult> {
    const char* codes[] = {"sick_device", "died", "timeout", "sick_device"};
    return Fail(ErrorKind::kInternal, codes[job++], "device-side assert triggered", "candidate");
  };
  const PowerReport report = Probe();
  EXPECT_EQ(report.Count("caught"), 4);
  EXPECT_EQ(report.faults[0].reason, "crashed");
  EXPECT_EQ(report.faults[2].reason, "hung");

  judge_.check = [](const CheckJob&) -> Result<CheckResult> {
    return Fail(ErrorKind::kEnvironment, "out_of_memory", "no memory is left");
  };
  auto failed = ProbePower(judge_, compiler_, 90, pair_, twins_, sites_, {}, clock_, 10);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "out_of_memory");
}

TEST_F(PowerProbeTest, EqualBytesAreNoProof) {
  judge_.check = [](const CheckJob& job) { return FakeJudge::PassingCheck(job, true); };
  const PowerReport report = Probe();
  EXPECT_EQ(report.Count("silent"), 4);
  EXPECT_FALSE(report.HasPassed());
}

TEST_F(PowerProbeTest, WhatFoldsToTheCompilersKernelIsEquivalent) {
  compiler_.adjust = [this](const CompileRequest& request, CompileOutput* output) {
    output->ttir_path = baseline_.ttir_path;
    if (request.source.find("dense<99>") != std::string::npos) output->ttir_path = "/nothing";
  };
  judge_.check = [](const CheckJob&) { return FakeJudge::FailingCheck("wrong_value"); };
  auto report = ProbePower(judge_, compiler_, 90, pair_, twins_, sites_, {}, clock_, 10);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, "no_such_file");
  compiler_.adjust = [this](const CompileRequest&, CompileOutput* output) {
    output->ttir_path = baseline_.ttir_path;
  };
  EXPECT_EQ(Probe().Count("equivalent"), 4);
}

TEST_F(PowerProbeTest, KeepsToItsTimeAndSurvivesWhatDoesNotCompile) {
  compiler_.fail = [](const CompileRequest& request) -> std::optional<Error> {
    if (request.source.find("dense<99>") == std::string::npos) return std::nullopt;
    return Error{ErrorKind::kUsage, "compile_error", "bad", ""};
  };
  clock_.step = 4;  // seconds a look at it
  const PowerReport report = Probe();
  EXPECT_EQ(report.faults[0].reason, "compile_error");
  EXPECT_EQ(report.Count("unknown"), 2);
  EXPECT_EQ(report.Count("caught"), 2);
}

TEST_F(PowerProbeTest, TheJudgesErrorsAreErrors) {
  judge_.check = [](const CheckJob&) -> Result<CheckResult> {
    return Fail(ErrorKind::kEnvironment, "out_of_memory", "too large");
  };
  auto report = ProbePower(judge_, compiler_, 90, pair_, twins_, sites_, {}, clock_, 10);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, "out_of_memory");
}

}  // namespace
}  // namespace kernelopt
