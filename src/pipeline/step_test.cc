#include "pipeline/step.h"

#include "testing/pipeline_bench.h"

namespace kernelopt {
namespace {

class StepTest : public ::testing::Test {
 protected:
  StepSpec Counting(const std::string& inputs) {
    return {.name = "work",
            .inputs = inputs,
            .disabled = "",
            .run = [this]() -> Result<StepResult> {
              ++runs_;
              bench_.clock.now += 3;
              return StepResult{"did it", R"({"x":1})"};
            },
            .verify = [this](const StepResult&) -> Status {
              if (valid_) return {};
              return Fail(ErrorKind::kInternal, "invalid", "not what it should be");
            }};
  }
  Result<StepResult> Run(const StepSpec& step) {
    Environment environment = bench_.MakeEnvironment();
    return StepRunner(environment).Run(step);
  }
  std::string LastState() { return (*bench_.store->LastStep("work"))->state; }

  TestBench bench_;
  int runs_ = 0;
  bool valid_ = true;
};

TEST_F(StepTest, IsDoneOnceWithTheSameInputs) {
  ASSERT_TRUE(Run(Counting("a")));
  bench_.Reopen();
  auto again = Run(Counting("a"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data, R"({"x":1})");
  EXPECT_EQ(again->message, "did it");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(bench_.events.Count("work", "done"), 1);
  EXPECT_EQ(bench_.events.Count("work", "reused"), 1);
}

TEST_F(StepTest, IsDoneAgainWithOtherInputsOrNone) {
  ASSERT_TRUE(Run(Counting("a")));
  ASSERT_TRUE(Run(Counting("b")));
  ASSERT_TRUE(Run(Counting("")));
  ASSERT_TRUE(Run(Counting("")));
  EXPECT_EQ(runs_, 4);
}

TEST_F(StepTest, IsDoneAgainWhenItsResultIsSpoilt) {
  ASSERT_TRUE(Run(Counting("a")));
  valid_ = false;
  EXPECT_FALSE(Run(Counting("a")));
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(LastState(), "failed");
  valid_ = true;
  EXPECT_TRUE(Run(Counting("a"))) << "a failed step is no reason not to try again";
  EXPECT_EQ(runs_, 3);
}

TEST_F(StepTest, CancelledBeforeItBegins) {
  bench_.cancelled = true;
  auto result = Run(Counting("a"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(runs_, 0);
}

TEST_F(StepTest, ErrorsAreRecordedAndPassedOn) {
  StepSpec step = Counting("a");
  step.run = []() -> Result<StepResult> {
    return Fail(ErrorKind::kModel, "forward_raises", "forward raises ValueError", "m.py:3");
  };
  auto result = Run(step);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "forward_raises");
  auto last = *bench_.store->LastStep("work");
  EXPECT_EQ(last->state, "failed");
  EXPECT_NE(last->detail.find("m.py:3"), std::string::npos);
  step.run = []() -> Result<StepResult> {
    return Fail(ErrorKind::kInterrupted, "interrupted", "stopped as asked");
  };
  EXPECT_FALSE(Run(step));
  EXPECT_EQ(LastState(), "interrupted");
}

TEST_F(StepTest, DisabledIsSkippedWithItsReason) {
  StepSpec step = Counting("a");
  step.disabled = "nothing to do";
  auto result = Run(step);
  ASSERT_TRUE(result);
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(LastState(), "skipped");
  EXPECT_EQ(bench_.events.Count("work", "skipped"), 1);
}

TEST_F(StepTest, IsTimed) {
  ASSERT_TRUE(Run(Counting("a")));
  EXPECT_DOUBLE_EQ(bench_.events.events.back().elapsed_s, 3);
}

}  // namespace
}  // namespace kernelopt
