#include "pipeline/recording_judge.h"

#include <filesystem>

#include "base/file.h"
#include "testing/pipeline_bench.h"

namespace kernelopt {
namespace {

class RecordingJudgeTest : public ::testing::Test {
 protected:
  RecordingJudgeTest() {
    bench_.judge.time_us = [this](const Program&, const Site&) { return now_us_; };
    bench_.judge.check = [this](const CheckJob& job) -> Result<CheckResult> {
      if (fail_) return Fail(ErrorKind::kEnvironment, "sick_device", "the GPU is sick");
      return testing::FakeJudge::PassingCheck(job);
    };
  }
  RecordingJudge Make(const std::string& gpu = "gpu") {
    return RecordingJudge(bench_.judge, *bench_.store, gpu, "v1",
                          [this] { return bench_.cancelled; });
  }
  /// A job whose cubin lies in `folder`.
  TimeJob Job(const std::string& folder, const std::string& cubin = "bytes") {
    std::string path = bench_.folder.path() + "/" + folder;
    std::filesystem::create_directories(path);
    EXPECT_TRUE(WriteFileAtomic(path + "/k.cubin", cubin));
    TimeJob job;
    job.site.name = "site";
    job.programs.resize(2);
    job.programs[0].cubin_path = job.programs[1].cubin_path = path + "/k.cubin";
    return job;
  }
  TestBench bench_;
  double now_us_ = 10;
  bool fail_ = false;
};

TEST_F(RecordingJudgeTest, TheSameJobIsAnsweredFromTheStore) {
  auto first = Make().Time(Job("a"));
  ASSERT_TRUE(first);
  now_us_ = 99;
  bench_.Reopen();
  RecordingJudge judge = Make();
  auto again = judge.Time(Job("a"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->samples, first->samples);
  EXPECT_EQ(judge.reused(), 1);
  EXPECT_EQ(bench_.judge.times.size(), 1u);
}

TEST_F(RecordingJudgeTest, ACubinIsItsContentNotItsPath) {
  ASSERT_TRUE(Make().Time(Job("a")));
  ASSERT_TRUE(Make().Time(Job("b")));
  EXPECT_EQ(bench_.judge.times.size(), 1u);
  ASSERT_TRUE(Make().Time(Job("a", "other bytes")));
  EXPECT_EQ(bench_.judge.times.size(), 2u);
}

TEST_F(RecordingJudgeTest, AnotherGpuOrStateIsAnotherJob) {
  ASSERT_TRUE(Make().Time(Job("a")));
  ASSERT_TRUE(Make("other gpu").Time(Job("a")));
  TimeJob cold = Job("a");
  cold.state = CacheState::kCold;
  ASSERT_TRUE(Make().Time(cold));
  EXPECT_EQ(bench_.judge.times.size(), 3u);
}

TEST_F(RecordingJudgeTest, ErrorsAreNotKept) {
  CheckJob job;
  job.data.resize(1);
  fail_ = true;
  EXPECT_FALSE(Make().Check(job));
  fail_ = false;
  EXPECT_TRUE(Make().Check(job));
  EXPECT_TRUE(Make().Check(job));
  EXPECT_EQ(bench_.judge.checks.size(), 2u);
}

TEST_F(RecordingJudgeTest, AnAnswerThatCanNotBeKeptIsTheLast) {
  auto reader = Store::Open(bench_.folder / "run", StoreMode::kRead);
  ASSERT_TRUE(reader);
  RecordingJudge judge(bench_.judge, **reader, "gpu", "v1", nullptr);
  EXPECT_TRUE(judge.kept());
  auto first = judge.Time(Job("a"));
  ASSERT_FALSE(first);
  ASSERT_FALSE(judge.kept());
  CheckJob job;
  job.data.resize(1);
  auto second = judge.Check(job);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().ToString(), first.error().ToString());
  EXPECT_EQ(bench_.judge.times.size(), 1u);
  EXPECT_EQ(bench_.judge.checks.size(), 0u);
}

TEST_F(RecordingJudgeTest, CancelledOnlyForNewJobs) {
  ASSERT_TRUE(Make().Time(Job("a")));
  bench_.cancelled = true;
  EXPECT_TRUE(Make().Time(Job("a")));
  auto refused = Make().Time(Job("a", "new"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace kernelopt
