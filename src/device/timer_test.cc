#include "device/timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/host_runtime.h"

namespace kernelopt {
namespace {

using testing::ElementsAre;

class TimerTest : public testing::Test {
 protected:
  TimerTest() {
    for (const auto& [name, us] : {std::pair{"a", 10.0}, {"b", 5.0}, {"long", 100.0}}) {
      runtime_.Register(name, [](const HostLaunch&) { return true; }, us);
    }
    StorageSpec spec;
    spec.bytes = 100 * 1024;  // six fit in 60 % of the host's L2 of 1 MiB
    spec.written = true;
    spec.role = StorageRole::kZeros;  // quick to restore
    job_.site = {"test", {spec}, {}};
    job_.rounds = 4;
  }
  void Programs(std::initializer_list<const char*> names) {
    for (const char* name : names) job_.programs.emplace_back().record.entry = name;
  }
  std::string LastGraph() {
    for (auto it = runtime_.timing_log().rbegin();; ++it) {
      if (it->starts_with("graph")) return *it;
    }
  }
  HostRuntime runtime_;
  TimeJob job_;
};

TEST_F(TimerTest, SamplesAreMicrosecondsALaunch) {
  Programs({"a", "b"});
  job_.state = CacheState::kCold;
  auto result = RunTime(runtime_, job_);
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_THAT(result->samples, ElementsAre(ElementsAre(10, 10, 10, 10), ElementsAre(5, 5, 5, 5)));
  EXPECT_THAT(result->failures, ElementsAre("", ""));
  EXPECT_EQ(LastGraph(), "graph 20");
  EXPECT_EQ(runtime_.allocated_bytes(), 0);
}

TEST_F(TimerTest, AsManyLaunchesAsTouchedCopiesFitInTheCache) {
  Programs({"a"});
  job_.touched = {0};
  ASSERT_TRUE(RunTime(runtime_, job_));
  EXPECT_EQ(LastGraph(), "graph 6");
  const std::vector<std::string>& log = runtime_.timing_log();
  EXPECT_EQ(log[log.size() - 2], "touch 102400");
  EXPECT_EQ(log[log.size() - 8], "flush");
}

TEST_F(TimerTest, LongKernelsRunAlone) {
  Programs({"long", "a"});
  ASSERT_TRUE(RunTime(runtime_, job_));
  EXPECT_EQ(LastGraph(), "graph 1");
}

TEST_F(TimerTest, AMissingProgramIsChargedAlone) {
  Programs({"a", "nobody", "b"});
  auto result = RunTime(runtime_, job_);
  ASSERT_TRUE(result);
  EXPECT_THAT(result->failures, ElementsAre("", "job_error", ""));
  EXPECT_TRUE(result->samples[1].empty());
  EXPECT_EQ(result->samples[2].size(), 4u);
}

TEST_F(TimerTest, ASickDeviceNamesTheProgram) {
  runtime_.Register("bad", [](const HostLaunch&) { return false; });
  Programs({"a", "bad"});
  auto result = RunTime(runtime_, job_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "sick_device");
  EXPECT_EQ(result.error().where, "program 1");
}

TEST_F(TimerTest, RefusesAJobThatMakesNoSense) {
  EXPECT_EQ(RunTime(runtime_, job_).error().code, "job_error");
  Programs({"a"});
  job_.touched = {3};
  EXPECT_EQ(RunTime(runtime_, job_).error().code, "job_error");
  job_.touched.clear();
  job_.programs[0].record.entry = "nobody";  // the yardstick itself
  EXPECT_EQ(RunTime(runtime_, job_).error().code, "job_error");
}

}  // namespace
}  // namespace kernelopt
