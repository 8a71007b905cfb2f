// The client against a child of our own: this test program serves a host
// runtime when it is started with --fake-judge.
#include "judge/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "device/host_runtime.h"
#include "judge/server.h"
#include "proc/frame_server.h"

namespace kernelopt {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Result<JudgeServer::Device> OpenHost() {
  auto runtime = std::make_unique<HostRuntime>();
  const auto good = [](const HostLaunch& launch) {
    for (int i = 0; i < 16; ++i) launch.Pointer<float>(0)[i] = static_cast<float>(i);
    return true;
  };
  runtime->Register("good", good, 30);
  runtime->Register("fast", good, 25);
  runtime->Register("wrong", [](const HostLaunch&) { return true; });
  runtime->Register("illegal", [](const HostLaunch&) { return false; });
  runtime->Register("hangs", [](const HostLaunch&) {
    for (;;) pause();
    return true;
  });
  runtime->Register("exits", [](const HostLaunch&) -> bool { _exit(9); });
  JudgeServer::Device device;
  device.runtime = std::move(runtime);
  device.speeds = [] { return Result<DeviceSpeeds>(DeviceSpeeds{4000, 8000, 2}); };
  return device;
}

class ClientTest : public testing::Test {
 protected:
  ClientTest() : judge_({.command = {"/proc/self/exe", "--fake-judge"}}) {
    StorageSpec out;
    out.bytes = 64;
    out.role = StorageRole::kPoison;
    out.written = true;
    ArgumentSpec argument;
    argument.kind = ArgumentSpec::Kind::kStorage;
    argument.storage = 0;
    site_ = {"test", {out}, {argument}};
  }
  CheckJob Check(const char* candidate) const {
    CheckJob job;
    job.site = site_;
    job.baseline.record.entry = "good";
    job.candidate.record.entry = candidate;
    job.data = {DataSet{}};
    job.time_limit_ms = 300;
    return job;
  }
  TimeJob Time(std::initializer_list<const char*> programs) const {
    TimeJob job;
    job.site = site_;
    job.rounds = 2;
    job.time_limit_ms = 300;
    for (const char* name : programs) job.programs.emplace_back().record.entry = name;
    return job;
  }
  Site site_;
  JudgeClient judge_;
};

TEST_F(ClientTest, AnswersCrossThePipe) {
  EXPECT_EQ(judge_.Facts()->name, "host");
  EXPECT_EQ(judge_.Speeds()->l2_gb_s, 8000);
  auto result = judge_.Check(Check("fast"));
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->reason, "ok");
  EXPECT_TRUE(result->bitwise_equal);
  EXPECT_EQ(judge_.Check(Check("wrong"))->reason, "not_written");
  EXPECT_TRUE(judge_.Release());
  EXPECT_EQ(judge_.Check(Check("good"))->reason, "ok");
  EXPECT_EQ(judge_.starts(), 1);
}

TEST_F(ClientTest, EachWayToEndHasItsCodeAndCostsOneRespawn) {
  struct Case {
    const char* candidate;
    const char* code;
    int starts;
  };
  for (const Case& c : {Case{"illegal", "sick_device", 1}, Case{"hangs", "timeout", 2},
                        Case{"exits", "died", 3}, Case{"nobody", "job_error", 4}}) {
    auto result = judge_.Check(Check(c.candidate));
    ASSERT_FALSE(result) << c.candidate;
    EXPECT_EQ(result.error().code, c.code) << result.error().ToString();
    EXPECT_EQ(judge_.starts(), c.starts);
  }
  EXPECT_EQ(judge_.Check(Check("good"))->reason, "ok");
  EXPECT_EQ(judge_.starts(), 4);
}

TEST_F(ClientTest, TheGuiltyProgramIsChargedAlone) {
  auto result = judge_.Time(Time({"good", "illegal", "nobody", "hangs", "exits", "fast"}));
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_THAT(result->failures, ElementsAre("", "sick_device", "job_error", "timeout", "died", ""));
  EXPECT_THAT(result->samples,
              ElementsAre(SizeIs(2), IsEmpty(), IsEmpty(), IsEmpty(), IsEmpty(), SizeIs(2)));
}

TEST_F(ClientTest, ABaselineThatFailsIsAnError) {
  EXPECT_EQ(judge_.Time(Time({"illegal", "good"})).error().code, "sick_device");
  EXPECT_EQ(judge_.Time(Time({"hangs", "good"})).error().code, "timeout");
}

TEST(Server, RefusesWhatItCannotRead) {
  JudgeServer server(OpenHost);
  EXPECT_FALSE(server.Dispatch("dance", Json::object()));
  EXPECT_EQ(server.Dispatch("check", Json::object()).error().code, "job_error");
  EXPECT_EQ(server.Dispatch("time", Json::array()).error().code, "job_error");
}

TEST(Server, WithoutADriverSaysSo) {
  JudgeServer server([]() -> Result<JudgeServer::Device> {
    return Fail(ErrorKind::kEnvironment, "no_gpu", "no driver");
  });
  EXPECT_EQ(server.Dispatch("facts", Json::object()).error().code, "no_gpu");
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  using namespace kernelopt;
  if (argc > 1 && std::string_view(argv[1]) == "--fake-judge") {
    JudgeServer server(OpenHost);
    return ServeStandardStreams(Json::object(), [&](const std::string& method, const Json& params) {
      return server.Dispatch(method, params);
    });
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
