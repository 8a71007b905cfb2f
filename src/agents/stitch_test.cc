#include "agents/stitch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Keys = std::vector<std::string>;

std::vector<StitchPiece> Pieces(std::initializer_list<std::pair<const char*, double>> list) {
  std::vector<StitchPiece> pieces;
  for (auto [key, gain] : list) pieces.push_back({key, gain});
  return pieces;
}

/// Gate 3 fails on any set that contains one of `bad` whole.
StitchGates Gates(
    std::vector<std::set<std::string>> bad,
    std::function<bool(const Keys&)> faster = [](const Keys&) { return true; }) {
  StitchGates gates;
  gates.check = [bad](const Keys& keys) -> Result<Verdict> {
    std::set<std::string> set(keys.begin(), keys.end());
    for (const auto& group : bad) {
      if (std::includes(set.begin(), set.end(), group.begin(), group.end()))
        return Reject(Gate::kModel, "wrong_value", "off");
    }
    return Accept(Gate::kModel, "right");
  };
  gates.time = [faster](const Keys& keys) -> Result<Verdict> {
    if (faster(keys)) return Accept(Gate::kPerformance, "faster");
    return Reject(Gate::kPerformance, "not_faster", "slow");
  };
  return gates;
}

Keys DroppedKeys(const StitchOutcome& outcome) {
  Keys keys;
  for (const DroppedPiece& dropped : outcome.dropped) keys.push_back(dropped.key);
  return keys;
}

TEST(StitchTest, KeepsAllWhenAllIsRight) {
  auto outcome = StitchAndProve(Pieces({{"a", 1}, {"b", 3}, {"c", 2}}), Gates({}), 0);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->accepted, ElementsAre("b", "c", "a"));
  EXPECT_EQ(outcome->reason, "improved");
  EXPECT_EQ(outcome->checks, 1);
  EXPECT_EQ(outcome->timings, 1);
}

TEST(StitchTest, NothingToStitch) {
  auto outcome = StitchAndProve({}, Gates({}), 0);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->reason, "nothing_to_stitch");
  EXPECT_EQ(outcome->checks, 0);
}

TEST(StitchTest, DropsOnlyTheCulprits) {
  auto outcome = StitchAndProve(
      Pieces({{"a", 8}, {"b", 7}, {"c", 6}, {"d", 5}, {"e", 4}, {"f", 3}, {"g", 2}, {"h", 1}}),
      Gates({{"c"}, {"h"}}), 0);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->accepted, ElementsAre("a", "b", "d", "e", "f", "g"));
  EXPECT_THAT(DroppedKeys(*outcome), ElementsAre("c", "h"));
  EXPECT_EQ(outcome->dropped[0].verdict.reason, "wrong_value");
  EXPECT_TRUE(outcome->correctness.accepted);
}

TEST(StitchTest, OfTwoThatClashTheSmallerGainIsDropped) {
  auto outcome = StitchAndProve(Pieces({{"a", 1}, {"b", 9}, {"c", 5}}), Gates({{"a", "b"}}), 0);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->accepted, ElementsAre("b", "c"));
  EXPECT_THAT(DroppedKeys(*outcome), ElementsAre("a"));
}

TEST(StitchTest, AllWrongKeepsTheCompilersModel) {
  auto outcome = StitchAndProve(Pieces({{"a", 1}, {"b", 2}}), Gates({{"a"}, {"b"}}), 0);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->accepted, IsEmpty());
  EXPECT_EQ(outcome->reason, "wrong_value");
  EXPECT_EQ(outcome->timings, 0);
}

TEST(StitchTest, AFaultOfTheModelIsNotBisected) {
  StitchGates gates = Gates({});
  gates.check = [](const Keys&) -> Result<Verdict> {
    return Reject(Gate::kModel, "degenerate", "constant");
  };
  auto outcome = StitchAndProve(Pieces({{"a", 1}, {"b", 2}}), gates, 0);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->reason, "degenerate");
  EXPECT_EQ(outcome->checks, 1);
  EXPECT_THAT(outcome->dropped, IsEmpty());
}

TEST(StitchTest, TriesLargeGainsAloneWhenTheSetIsNotFaster) {
  auto outcome = StitchAndProve(Pieces({{"a", 10}, {"b", 0.1}, {"c", 5}}),
                                Gates({}, [](const Keys& keys) { return keys.size() == 2; }), 1);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->accepted, ElementsAre("a", "c"));
  EXPECT_THAT(DroppedKeys(*outcome), ElementsAre("b"));
  EXPECT_EQ(outcome->dropped[0].verdict.reason, "not_faster");
  EXPECT_EQ(outcome->timings, 2);
}

TEST(StitchTest, NotFasterKeepsTheCompilersModel) {
  auto outcome = StitchAndProve(Pieces({{"a", 10}, {"b", 5}}),
                                Gates({}, [](const Keys&) { return false; }), 1);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->accepted, IsEmpty());
  EXPECT_EQ(outcome->reason, "not_faster");
  EXPECT_EQ(outcome->timings, 1);
}

TEST(StitchTest, PassesAWorkersErrorOn) {
  StitchGates gates = Gates({});
  gates.time = [](const Keys&) -> Result<Verdict> {
    return Fail(ErrorKind::kInternal, "died", "the model worker died");
  };
  auto outcome = StitchAndProve(Pieces({{"a", 1}}), gates, 0);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, "died");
}

RC_GTEST_PROP(StitchTest, WhatIsAcceptedPassedGate3AndOnlyCulpritsAreDropped, ()) {
  int count = *rc::gen::inRange(1, 16);
  std::vector<StitchPiece> pieces;
  std::vector<std::set<std::string>> bad;
  for (int i = 0; i < count; ++i) {
    std::string key = "k" + std::to_string(i);
    pieces.push_back({key, static_cast<double>(*rc::gen::inRange(0, 100))});
    if (*rc::gen::inRange(0, 4) == 0) bad.push_back({key});
  }
  StitchGates gates = Gates(bad);
  std::vector<Keys> passed;
  auto inner = gates.check;
  gates.check = [&](const Keys& keys) {
    auto verdict = inner(keys);
    if (verdict->accepted) passed.push_back(keys);
    return verdict;
  };
  auto outcome = StitchAndProve(pieces, gates, 0);
  RC_ASSERT(outcome.has_value());
  RC_ASSERT(outcome->dropped.size() == bad.size());
  RC_ASSERT(outcome->accepted.size() + bad.size() == pieces.size());
  if (!outcome->accepted.empty()) {
    RC_ASSERT(std::find(passed.begin(), passed.end(), outcome->accepted) != passed.end());
  }
}

}  // namespace
}  // namespace kernelopt
