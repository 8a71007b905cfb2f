#include "gates/kernel_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "inductor/module.h"
#include "testing/fakes.h"

namespace kernelopt {
namespace {

using testing::FakeCompiler;
using testing::FakeJudge;
using ::testing::HasSubstr;

class KernelGateTest : public ::testing::Test {
 protected:
  KernelGateTest() {
    kernel_.name = kernel_.entry = "k";
    kernel_.grid_type = "Grid1D";
    LaunchConfig config;
    config.constexprs = {{"XBLOCK", 64}};
    pair_ = {&kernel_, config, config, &compiled_, &compiled_};
    compiled_.ttir_path = KERNELOPT_SOURCE_DIR "/src/ttir/testdata/pointwise.ttir";
    BuiltSite site;
    site.site.name = "site 1";
    site.numels = {{"xnumel", 100}};
    site.site.storages.resize(1);
    sites_ = {site};
  }

  Kernel kernel_;
  CompileOutput compiled_;
  KernelPair pair_;
  FakeCompiler compiler_;
  TwinMaker twins_{kernel_, pair_.baseline_config, compiled_, 90, compiler_};
  std::vector<BuiltSite> sites_;
  FakeJudge judge_;
  KernelRule rule_;
};

TEST_F(KernelGateTest, DataCoversFamiliesSeedsAndDraws) {
  Site site;
  site.storages.resize(1);
  EXPECT_EQ(ScreenData(site).size(), 3u);
  EXPECT_EQ(CertifyData(site).size(), 27u);
  site.storages[0].contents_path = "blob";
  EXPECT_EQ(CertifyData(site).size(), 30u);
  site.storages[0].has_envelope = true;
  std::vector<DataSet> all = CertifyData(site);
  EXPECT_EQ(all.size(), 57u);
  std::set<std::string> names;
  std::set<uint64_t> seeds;
  for (const DataSet& data : all) {
    names.insert(std::string(ToString(data.family)));
    seeds.insert(data.seed);
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(seeds, (std::set<uint64_t>{0, 42, 1337}));
}

TEST_F(KernelGateTest, JudgesEqualSitesOnceAndOthersEach) {
  sites_.push_back(sites_[0]);
  sites_[1].site.name = "site 2";
  sites_.push_back(sites_[0]);
  sites_[2].site.name = "site 3";
  sites_[2].site.storages[0].bytes = 64;
  Verdict verdict = CertifyKernel(judge_, pair_, twins_, sites_, rule_);
  EXPECT_TRUE(verdict.accepted) << verdict.message;
  EXPECT_TRUE(IsBitwise(verdict));
  EXPECT_THAT(verdict.message, HasSubstr("108 data sets at 2 sites"));
  std::set<std::string> names;
  for (const CheckJob& job : judge_.checks) names.insert(job.site.name);
  EXPECT_EQ(names, (std::set<std::string>{"site 1", "site 3"}));
}

TEST_F(KernelGateTest, AFaultAtTheLastSiteIsFoundAndNamed) {
  sites_.push_back(sites_[0]);
  sites_[1].site.name = "site 2";
  sites_[1].site.storages[0].bytes = 64;
  judge_.check = [](const CheckJob& job) -> Result<CheckResult> {
    if (job.site.name == "site 2" && job.data[0].family == DataFamily::kSpecial)
      return FakeJudge::FailingCheck("wrong_nonfinite", 2, 63);
    return FakeJudge::PassingCheck(job);
  };
  Verdict verdict = CertifyKernel(judge_, pair_, twins_, sites_, rule_);
  EXPECT_EQ(verdict.reason, "wrong_nonfinite");
  EXPECT_THAT(verdict.message, HasSubstr("site 2, special seed 1337, storage 0 element 63"));
  auto evidence = ParseJson(verdict.evidence, "evidence");
  ASSERT_TRUE(evidence.has_value());
  EXPECT_EQ((*evidence)["element"]["index"], 63);
  EXPECT_FALSE(IsBitwise(verdict));
  // Screening looks at the first site only, and accepts nothing by itself.
  EXPECT_TRUE(ScreenKernel(judge_, pair_, twins_, sites_, rule_).accepted);
}

TEST_F(KernelGateTest, FamiliesThatDontCountAreLeftOutButNotAll) {
  std::set<DataFamily> counted = {DataFamily::kUniform, DataFamily::kNormal, DataFamily::kTies};
  judge_.check = [&](const CheckJob& job) -> Result<CheckResult> {
    CheckResult result = FakeJudge::PassingCheck(job);
    if (!counted.contains(job.data[0].family)) result.reason = "nothing_counted";
    return result;
  };
  EXPECT_TRUE(CertifyKernel(judge_, pair_, twins_, sites_, rule_).accepted);
  counted.erase(DataFamily::kTies);
  EXPECT_EQ(CertifyKernel(judge_, pair_, twins_, sites_, rule_).reason, "nothing_counted");
}

TEST_F(KernelGateTest, EveryJobHasTheTwinAndAKernelWithoutOneIsRejected) {
  EXPECT_TRUE(CertifyKernel(judge_, pair_, twins_, sites_, rule_).accepted);
  ASSERT_FALSE(judge_.checks.empty());
  for (const CheckJob& job : judge_.checks) EXPECT_TRUE(job.twin);
  compiler_.fail = [](const CompileRequest&) {
    return Error{ErrorKind::kUsage, "compile_error", "too many registers", "k"};
  };
  TwinMaker none(kernel_, pair_.baseline_config, compiled_, 90, compiler_);
  Verdict verdict = CertifyKernel(judge_, pair_, none, sites_, rule_);
  EXPECT_EQ(verdict.reason, "no_twin");
  EXPECT_THAT(verdict.message, HasSubstr("too many registers"));
}

TEST_F(KernelGateTest, GuardPagesGetTheBitsThatWereRight) {
  judge_.check = [](const CheckJob& job) -> Result<CheckResult> {
    CheckResult result = FakeJudge::PassingCheck(job, false);
    for (DataSetResult& set : result.sets) set.checksums = {set.data.seed, 7};
    return result;
  };
  EXPECT_TRUE(CertifyKernel(judge_, pair_, twins_, sites_, rule_).accepted);
  for (const CheckJob& job : judge_.checks) {
    ASSERT_EQ(job.known.size(), job.guard_pages ? job.data.size() : 0);
    for (size_t i = 0; i < job.known.size(); ++i)
      EXPECT_EQ(job.known[i], (std::vector<uint64_t>{job.data[i].seed, 7}));
  }
}

// A storage that is updated in place, by two programs: 64 elements each of 100.
TEST_F(KernelGateTest, WatchesWhoUpdatesWhatInPlace) {
  for (int i = 0; i < 3; ++i) kernel_.arguments.push_back({"p", "", "*fp32"});
  kernel_.arguments.push_back({"XBLOCK", "tl.constexpr", "constexpr"});
  Site& site = sites_[0].site;
  site.storages.resize(2);
  for (StorageSpec& storage : site.storages) storage.bytes = 400;
  site.storages[1].written = true;
  site.arguments.resize(3);
  for (size_t i = 0; i < 3; ++i) site.arguments[i].storage = i == 2;
  CompileOutput other = compiled_;
  other.cubin_path = "other";
  pair_.candidate = &other;
  std::set<std::string> racing;
  int watched = 0;
  judge_.check = [&](const CheckJob& job) -> Result<CheckResult> {
    if (job.owners.empty()) return FakeJudge::PassingCheck(job);
    ++watched;
    EXPECT_EQ(job.owners.size(), 2u);
    return racing.contains(job.candidate.cubin_path) ? FakeJudge::FailingCheck("race")
                                                     : FakeJudge::PassingCheck(job);
  };
  const auto certify = [&] { return CertifyKernel(judge_, pair_, twins_, sites_, rule_); };
  EXPECT_TRUE(certify().accepted);
  EXPECT_EQ(watched, 1);
  racing = {"other"};
  EXPECT_EQ(certify().reason, "race");
  // The compiler's kernel does it, too.
  racing = {"other", compiled_.cubin_path};
  EXPECT_TRUE(certify().accepted);
  rule_.without = {"race"};
  watched = 0;
  racing = {"other"};
  EXPECT_TRUE(certify().accepted);
  rule_.without.clear();
  // One program alone has nobody to disturb.
  sites_[0].numels = {{"xnumel", 64}};
  EXPECT_TRUE(certify().accepted);
  EXPECT_EQ(watched, 0);
}

TEST_F(KernelGateTest, NamesTheJudgesErrors) {
  const std::pair<const char*, const char*> cases[] = {{"out_of_memory", "not_verifiable_here"},
                                                       {"sick_device", "crashed"},
                                                       {"died", "crashed"},
                                                       {"timeout", "hung"},
                                                       {"protocol_error", "judge_failed"}};
  for (auto [code, reason] : cases) {
    judge_.check = [code = code](const CheckJob&) -> Result<CheckResult> {
      return Fail(ErrorKind::kEnvironment, code, "it failed");
    };
    EXPECT_EQ(CertifyKernel(judge_, pair_, twins_, sites_, rule_).reason, reason);
    EXPECT_EQ(ScreenKernel(judge_, pair_, twins_, sites_, rule_).reason, reason);
  }
}

}  // namespace
}  // namespace kernelopt
