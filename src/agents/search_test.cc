#include "agents/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "agents/certify.h"
#include "testing/fakes.h"
#include "testing/kernel_fixture.h"

namespace kernelopt {
namespace {

using ::testing::AllOf;
using testing::FakeCompiler;
using testing::FakeConfig;
using testing::FakeJudge;
using testing::FakeSource;
using ::testing::HasSubstr;
using testing::PointwiseConfig;

/// Times with one optimum: XBLOCK 128 with 2 warps takes 8 us, each doubling or
/// halving away from it costs 7 %.
double Bowl(const LaunchConfig& config) {
  double distance = std::fabs(std::log2(static_cast<double>(config.constexprs.at("XBLOCK"))) - 7) +
                    std::fabs(std::log2(config.num_warps) - 1);
  return 8 * std::pow(1.07, distance) * (config.maxnreg ? 1.02 : 1) *
         (1 + 0.01 * (config.num_stages - 1));
}

struct Log : SearchObserver {
  std::vector<CandidateRecord> records;
  std::vector<std::string> lines;
  void OnCandidate(const std::string&, const CandidateRecord& record) override {
    records.push_back(record);
  }
  void OnProgress(const std::string&, const std::string& line) override { lines.push_back(line); }

  /// The last of what was told about a candidate with this reason.
  bool HasVerdict(const std::string& reason) const {
    for (const CandidateRecord& record : records)
      for (const Verdict& verdict : record.verdicts)
        if (verdict.reason == reason) return true;
    return false;
  }
};

class SearchTest : public ::testing::Test {
 protected:
  SearchTest() {
    kernel_ = testing::PointwiseKernel();
    subject_.key = "key";
    subject_.kernel = &kernel_;
    subject_.sites = {testing::PointwiseSite("graph 0 event 1", PointwiseConfig(1024, 4))};
    judge_.time_us = [](const Program& program, const Site&) { return Bowl(FakeConfig(program)); };
    options_.first_batch = 8;
  }

  SearchOutcome Run() {
    return SearchKernel(subject_, {compiler_, judge_, judge_.facts, "3.6.0"}, options_, &log_);
  }

  Kernel kernel_;
  SearchSubject subject_;
  FakeCompiler compiler_ = testing::PlainCompiler(KERNELOPT_SOURCE_DIR);
  FakeJudge judge_;
  SearchOptions options_;
  Log log_;
};

TEST_F(SearchTest, FindsTheOptimumByDescent) {
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner) << outcome.reason << ": " << outcome.message;
  EXPECT_EQ(outcome.reason, "improved");
  EXPECT_EQ(outcome.winner->replacement.steps[0].config, PointwiseConfig(128, 2));
  EXPECT_EQ(outcome.winner->baseline_config, PointwiseConfig(1024, 4));
  EXPECT_NEAR(outcome.winner->baseline_us / outcome.winner->time_us, std::pow(1.07, 4), 0.01);
  EXPECT_GT(outcome.winner->cold_us, 0);
  EXPECT_TRUE(outcome.winner->screening.accepted);
  EXPECT_EQ(log_.records.front().step, "baseline");
  EXPECT_FALSE(log_.lines.empty());
  EXPECT_LT(outcome.candidates, 80);
}

TEST_F(SearchTest, TakesTheSameDecisionsForTheSameTimes) {
  Run();
  std::vector<std::string> first;
  for (const CandidateRecord& record : log_.records)
    first.push_back(record.replacement.Id() + record.step + std::to_string(record.time_us));
  log_.records.clear();
  Run();
  std::vector<std::string> second;
  for (const CandidateRecord& record : log_.records)
    second.push_back(record.replacement.Id() + record.step + std::to_string(record.time_us));
  EXPECT_EQ(first, second);
}

TEST_F(SearchTest, CandidatesCompileAsLongAsTheCompilersKernelLetsExpect) {
  const auto limits = [this] {
    compiler_.requests.clear();
    Run();
    std::set<int> found;
    for (const CompileRequest& request : compiler_.requests)
      if (request.expected_hash.empty() && !request.is_ttir && request.source != kernel_.text)
        found.insert(request.time_limit_ms);
    return found;
  };
  EXPECT_EQ(limits(), std::set<int>{10000});
  auto plain = compiler_.adjust;
  compiler_.adjust = [plain](const CompileRequest& request, CompileOutput* output) {
    plain(request, output);
    output->compile_ms = 4000;  // a slow machine
  };
  EXPECT_EQ(limits(), std::set<int>{40000});
}

TEST_F(SearchTest, FindsACacheHint) {
  judge_.time_us = [](const Program& program, const Site&) {
    bool streamed = FakeSource(program).find("cache_modifier='.cs'") != std::string::npos;
    return Bowl(FakeConfig(program)) * (streamed ? 0.9 : 1);
  };
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner) << outcome.message;
  EXPECT_THAT(outcome.winner->replacement.steps[0].kernel_text, HasSubstr("'.cs'"));
  EXPECT_EQ(outcome.winner->replacement.steps[0].config, PointwiseConfig(128, 2));
  EXPECT_THAT(outcome.winner->replacement.change, HasSubstr("streamed"));
}

/// A kernel of rows that share a load, which the row_tiles rule rewrites.
Kernel RowKernel() {
  std::string source = testing::kPointwiseSource;
  auto replace = [&](const std::string& from, const std::string& to) {
    size_t at = source.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    source.replace(at, from.size(), to);
  };
  replace("x0 = xindex\n", "x0 = (xindex % 4096)\n    x1 = xindex\n");
  replace("out_ptr0 + (x0)", "out_ptr0 + (x1)");
  auto kernel = ReadKernelSource(source, "kernel.py");
  EXPECT_TRUE(kernel.has_value());
  return kernel ? std::move(*kernel) : Kernel{};
}

TEST_F(SearchTest, FindsARewrittenTextAndItsConfiguration) {
  kernel_ = RowKernel();
  judge_.time_us = [](const Program& program, const Site&) {
    bool tiled = FakeSource(program).find("for tile in range") != std::string::npos;
    return Bowl(FakeConfig(program)) * (tiled ? 0.5 : 1);
  };
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner) << outcome.message;
  const Replacement& replacement = outcome.winner->replacement;
  EXPECT_THAT(replacement.steps[0].kernel_text, HasSubstr("for tile in range"));
  EXPECT_EQ(replacement.steps[0].config, PointwiseConfig(128, 2));
  EXPECT_THAT(replacement.origin, HasSubstr("rule:row_tiles:"));
  EXPECT_THAT(replacement.change, AllOf(HasSubstr("tiles of"), HasSubstr("launched with")));
}

TEST_F(SearchTest, TheRulesCanBeSwitchedOff) {
  kernel_ = RowKernel();
  options_.rules = false;
  Run();
  for (const CandidateRecord& record : log_.records) EXPECT_NE(record.step, "rules");
}

TEST_F(SearchTest, TakesTheNextWhenTheFastestIsWrong) {
  judge_.check = [](const CheckJob& job) -> Result<CheckResult> {
    if (FakeConfig(job.candidate) == PointwiseConfig(128, 2))
      return FakeJudge::FailingCheck("wrong_value");
    return FakeJudge::PassingCheck(job);
  };
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner) << outcome.message;
  EXPECT_FALSE(outcome.winner->replacement.steps[0].config == PointwiseConfig(128, 2));
  EXPECT_TRUE(log_.HasVerdict("wrong_value"));
}

TEST_F(SearchTest, KeepsTheCompilersKernelWhenAllAreWrong) {
  judge_.check = [](const CheckJob& job) -> Result<CheckResult> {
    if (FakeConfig(job.candidate) == PointwiseConfig(1024, 4)) return FakeJudge::PassingCheck(job);
    return FakeJudge::FailingCheck("wrote_outside");
  };
  SearchOutcome outcome = Run();
  EXPECT_FALSE(outcome.winner);
  EXPECT_EQ(outcome.reason, "none_passed");
  EXPECT_THAT(outcome.message, HasSubstr("wrote_outside"));
}

TEST_F(SearchTest, KeepsTheCompilersKernelWhenNothingIsFaster) {
  judge_.time_us = [](const Program&, const Site&) { return 10.0; };
  EXPECT_EQ(Run().reason, "no_faster_candidate");
  // Less than the least gain is noise.
  judge_.time_us = [](const Program& program, const Site&) {
    return FakeConfig(program) == PointwiseConfig(512, 4) ? 9.95 : 10.0;
  };
  EXPECT_EQ(Run().reason, "no_faster_candidate");
}

TEST_F(SearchTest, HoldsTheBaselineToTheCapturedBinary) {
  subject_.sites[0].binary_hash = "of another compiler";
  SearchOutcome outcome = Run();
  EXPECT_EQ(outcome.reason, "baseline_differs");
  EXPECT_TRUE(judge_.times.empty());

  subject_.sites[0].binary_hash = "";
  compiler_.adjust = [](const CompileRequest& request, CompileOutput* output) {
    if (!request.expected_hash.empty()) output->binary_hash = request.expected_hash;
  };
  subject_.sites[0].binary_hash = "as recorded";
  EXPECT_EQ(Run().reason, "improved");
}

TEST_F(SearchTest, KeepsWhatCannotBeJudged) {
  judge_.check = [](const CheckJob&) -> Result<CheckResult> {
    return FakeJudge::FailingCheck("not_deterministic");
  };
  EXPECT_EQ(Run().reason, "not_certifiable");
  judge_.check = [](const CheckJob&) -> Result<CheckResult> {
    return Fail(ErrorKind::kEnvironment, "out_of_memory", "needs more");
  };
  EXPECT_EQ(Run().reason, "not_verifiable_here");
  judge_.check = [](const CheckJob& job) -> Result<CheckResult> {
    return FakeJudge::PassingCheck(job);
  };
  judge_.time_us = [](const Program&, const Site&) { return -1.0; };
  EXPECT_EQ(Run().reason, "baseline_fails");
  compiler_.fail = [](const CompileRequest&) {
    return Error{ErrorKind::kUsage, "compile_error", "no", ""};
  };
  EXPECT_EQ(Run().reason, "not_compilable");
}

TEST_F(SearchTest, StopsAtTheFloorAndWhenTimeIsUp) {
  subject_.sites[0].floor_us = Bowl(PointwiseConfig(1024, 4)) / 1.01;
  SearchOutcome outcome = Run();
  EXPECT_EQ(outcome.reason, "at_the_floor");
  EXPECT_EQ(outcome.candidates, 0);

  subject_.sites[0].floor_us = 0;
  options_.stop = [] { return true; };
  outcome = Run();
  EXPECT_EQ(outcome.reason, "out_of_time");
  EXPECT_TRUE(outcome.stopped_early);

  // What was found until then is not lost.
  int asked = 0;
  options_.stop = [&] { return ++asked > 2; };
  outcome = Run();
  EXPECT_TRUE(outcome.winner) << outcome.message;
  EXPECT_TRUE(outcome.stopped_early);

  // Near the floor nothing more is tried.
  options_.stop = [] { return false; };
  subject_.sites[0].floor_us = Bowl(PointwiseConfig(256, 4)) / 1.02;
  outcome = Run();
  ASSERT_TRUE(outcome.winner);
  EXPECT_LT(outcome.candidates, 20);
}

TEST_F(SearchTest, RefusesBinariesOutsideThePolicy) {
  std::string forbidden = std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/forbidden.ttir";
  compiler_.adjust = [&](const CompileRequest& request, CompileOutput* output) {
    if (request.config == PointwiseConfig(128, 2)) output->ttir_path = forbidden;
    if (request.config.num_warps == 1) output->record.shared_bytes = 1 << 20;
  };
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner) << outcome.message;
  EXPECT_FALSE(outcome.winner->replacement.steps[0].config == PointwiseConfig(128, 2));
  EXPECT_NE(outcome.winner->replacement.steps[0].config.num_warps, 1);
  EXPECT_TRUE(log_.HasVerdict("narrower_arithmetic"));
  EXPECT_TRUE(log_.HasVerdict("too_much_shared_memory"));
}

TEST_F(SearchTest, SurvivesCandidatesThatFail) {
  compiler_.fail = [](const CompileRequest& request) -> std::optional<Error> {
    if (request.config.num_warps == 8)
      return Error{ErrorKind::kUsage, "timeout", "took too long", ""};
    return std::nullopt;
  };
  judge_.time_us = [](const Program& program, const Site&) {
    return FakeConfig(program).constexprs.at("XBLOCK") == 512 ? -1 : Bowl(FakeConfig(program));
  };
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner) << outcome.message;
  EXPECT_TRUE(log_.HasVerdict("compile_timeout"));
  EXPECT_TRUE(log_.HasVerdict("crashed"));
}

/// A device that gets sick loses the whole job; the others of the job are
/// timed again, alone.
TEST_F(SearchTest, TimesTheOthersAgainWhenOneMakesTheDeviceSick) {
  struct SickJudge : FakeJudge {
    Result<TimeResult> Time(const TimeJob& job) override {
      for (const Program& program : job.programs)
        if (FakeConfig(program).constexprs.at("XBLOCK") == 2048)
          return Fail(ErrorKind::kEnvironment, "sick_device", "illegal access");
      return FakeJudge::Time(job);
    }
  } judge;
  judge.time_us = judge_.time_us;
  SearchOutcome outcome =
      SearchKernel(subject_, {compiler_, judge, judge.facts, "3.6.0"}, options_, &log_);
  ASSERT_TRUE(outcome.winner) << outcome.message;
  EXPECT_EQ(outcome.winner->replacement.steps[0].config, PointwiseConfig(128, 2));
  EXPECT_TRUE(log_.HasVerdict("crashed"));
}

TEST_F(SearchTest, WeighsSitesAndComparesEachWithItsOwnConfiguration) {
  // The large site was tuned by its module to the optimum already.
  subject_.sites.push_back(testing::PointwiseSite("graph 1 event 1", PointwiseConfig(128, 2)));
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner) << outcome.message;
  EXPECT_EQ(outcome.winner->replacement.steps[0].config, PointwiseConfig(128, 2));
  double first = Bowl(PointwiseConfig(1024, 4)), second = Bowl(PointwiseConfig(128, 2));
  EXPECT_NEAR(outcome.winner->baseline_us, first + second, 0.1);
  EXPECT_NEAR(outcome.winner->time_us, 2 * second, 0.1);
  // Two equal sites are measured once and counted twice.
  subject_.sites[1] = testing::PointwiseSite("graph 1 event 1", PointwiseConfig(1024, 4));
  EXPECT_NEAR(Run().winner->baseline_us, 2 * first, 0.1);
}

TEST_F(SearchTest, CertifiesTheWinner) {
  SearchOutcome outcome = Run();
  ASSERT_TRUE(outcome.winner);
  SearchTools tools{compiler_, judge_, judge_.facts, "3.6.0"};
  judge_.checks.clear();
  Certificate certificate = CertifyWinner(subject_, *outcome.winner, tools, options_.rule);
  EXPECT_TRUE(certificate.verdict.accepted) << certificate.verdict.message;
  EXPECT_EQ(certificate.label, "bitwise");
  EXPECT_EQ(judge_.releases, 1);
  size_t guarded = 0, sets = 0;
  for (const CheckJob& job : judge_.checks) {
    guarded += job.guard_pages;
    sets += job.data.size();
  }
  EXPECT_EQ(guarded * 2, judge_.checks.size());
  EXPECT_EQ(sets, 2 * 9 * 3u);  // families x seeds, once plain and once guarded

  judge_.check = [](const CheckJob& job) -> Result<CheckResult> {
    return FakeJudge::PassingCheck(job, false);
  };
  EXPECT_EQ(CertifyWinner(subject_, *outcome.winner, tools, options_.rule).label, "within rule");

  judge_.check = [](const CheckJob& job) -> Result<CheckResult> {
    if (job.guard_pages && job.data[0].family == DataFamily::kTies)
      return FakeJudge::FailingCheck("wrote_outside", 1);
    return FakeJudge::PassingCheck(job);
  };
  certificate = CertifyWinner(subject_, *outcome.winner, tools, options_.rule);
  EXPECT_FALSE(certificate.verdict.accepted);
  EXPECT_EQ(certificate.verdict.reason, "wrote_outside");
  EXPECT_EQ(certificate.label, "");
  EXPECT_THAT(certificate.verdict.message,
              HasSubstr("graph 0 event 1, with guard pages, ties seed 42, storage 0 element 7"));

  Winner edited = *outcome.winner;
  edited.replacement.steps[0].kernel_text += "\nimport os\n";
  EXPECT_EQ(CertifyWinner(subject_, edited, tools, options_.rule).verdict.reason, "import");
}

}  // namespace
}  // namespace kernelopt
