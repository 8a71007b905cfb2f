#include "base/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"

namespace kernelopt {
namespace {

RunEvent Progress(std::string message) {
  RunEvent event;
  event.kind = RunEvent::Kind::kProgress;
  event.step = "search";
  event.message = std::move(message);
  event.done = 12;
  event.total = 40;
  event.best = 1.034;
  event.left_s = 185;
  return event;
}

TEST(LiveLine, SaysWhatHowManyBestAndLeft) {
  EXPECT_EQ(LiveLine(Progress("triton_poi_3"), 10, 100),
            "search    12 of 40  triton_poi_3  best 1.034x  about 3 min 5 s left");
}

TEST(LiveLine, IsCutInTheMessage) {
  std::string line = LiveLine(Progress(std::string(100, 'k')), 10, 70);
  EXPECT_EQ(line.size(), 70u);
  EXPECT_NE(line.find("kkk..."), std::string::npos);
  EXPECT_NE(line.find("about 3 min 5 s left"), std::string::npos);
}

TEST(LiveLine, NeverIsLongerThanTheTerminal) {
  for (size_t width = 0; width < 80; ++width) {
    EXPECT_LE(LiveLine(Progress("triton_poi_fused_3"), 10, width).size(), width);
  }
}

TEST(LiveLine, KeepsControlCharactersOut) {
  EXPECT_EQ(LiveLine(Progress("a\n\x1b[2Jb"), 0, 200).find('\x1b'), std::string::npos);
}

TEST(LiveLine, ShowsElapsedTimeWhenTheEndIsNotKnown) {
  RunEvent event;
  event.step = "capture";
  event.message = "compiling";
  EXPECT_EQ(LiveLine(event, 12, 80), "capture   compiling  12 s");
  EXPECT_EQ(LiveLine(event, 1, 80), "capture   compiling");
}

TEST(JsonLine, JoinsData) {
  RunEvent event = Progress("x");
  event.kind = RunEvent::Kind::kResult;
  event.data = R"({"outcome":"kept","reason":"not_faster"})";
  auto json = ParseJson(JsonLine(event), "line");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["event"], "result");
  EXPECT_EQ((*json)["outcome"], "kept");
  EXPECT_EQ((*json)["reason"], "not_faster");
}

TEST(JsonLine, SurvivesInvalidUtf8) {
  EXPECT_TRUE(ParseJson(JsonLine(Progress("\xff\xfe")), "line"));
}

class FixedClock : public Clock {
 public:
  double Seconds() const override { return now; }
  double UnixSeconds() const override { return 1e9 + now; }
  double now = 0;
};

class Collect : public EventSink {
 public:
  void Emit(const RunEvent& event) override { events.push_back(event); }
  std::vector<RunEvent> events;
};

TEST(StepProgress, EstimatesTheTimeLeftFromTheMean) {
  FixedClock clock;
  Collect sink;
  StepProgress progress(sink, clock, "search", 4);
  clock.now = 5;
  progress.Advance("a", 1.1);
  clock.now = 10;
  progress.Advance("b");
  ASSERT_EQ(sink.events.size(), 2u);
  EXPECT_DOUBLE_EQ(sink.events[0].left_s, 15);
  EXPECT_DOUBLE_EQ(sink.events[1].left_s, 10);
  EXPECT_DOUBLE_EQ(sink.events[1].best, 1.1);
}

TEST(LogSink, AppendsTimedLines) {
  FixedClock clock;
  std::string path = testing::TempDir() + "/kernelopt_log_test.jsonl";
  unlink(path.c_str());
  for (int i = 0; i < 2; ++i) {
    auto sink = MakeLogSink(path, clock);
    ASSERT_TRUE(sink);
    (*sink)->Emit(Progress("x"));
  }
  std::string text = *ReadFile(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  auto line = ParseJson(text.substr(0, text.find('\n')), "line");
  ASSERT_TRUE(line);
  EXPECT_EQ((*line)["time"], 1e9);
  EXPECT_FALSE(MakeLogSink("/nonexistent/x.jsonl", clock));
}

TEST(PlainSink, PrintsFinishedStepsAndResults) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  {
    auto sink = MakeSink(OutputStyle::kPlain, pipes[1]);
    RunEvent end;
    end.kind = RunEvent::Kind::kStepEnd;
    end.step = "capture";
    end.outcome = "done";
    end.message = "3 graphs";
    end.elapsed_s = 12;
    sink->Emit(end);
    end.outcome = "failed";
    sink->Emit(end);
  }
  close(pipes[1]);
  char buffer[256];
  ssize_t count = read(pipes[0], buffer, sizeof buffer);
  close(pipes[0]);
  EXPECT_EQ(std::string(buffer, count), "capture   3 graphs  (12 s)\n");
}

}  // namespace
}  // namespace kernelopt
