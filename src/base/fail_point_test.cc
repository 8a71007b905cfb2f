#include "base/fail_point.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace kernelopt {
namespace {

// Each in a process of its own, begun anew: the variable is read once.
class FailPointTest : public ::testing::Test {
 protected:
  FailPointTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void Pass(const char* wanted) {
    setenv("KERNELOPT_FAILPOINT", wanted, 1);
    for (int i = 0; i < 3; ++i) {
      FailPoint("test.a");
      FailPoint("test.b");
    }
    _exit(100 + FailPointPassages()["test.a"]);
  }
};

TEST_F(FailPointTest, KillsAtThePassageThatIsNamed) {
  EXPECT_EXIT(Pass("test.a:3"), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(Pass("test.a:4"), ::testing::ExitedWithCode(103), "");
  EXPECT_EXIT(Pass("test.c:1"), ::testing::ExitedWithCode(103), "");
}

TEST_F(FailPointTest, CanBeSetLater) {
  const auto pass = [] {
    FailPoint("test.a");
    SetFailPoint("test.a", 2);
    FailPoint("test.a");
    if (FailPointPassages()["test.a"] != 1) _exit(1);
    FailPoint("test.a");
  };
  EXPECT_EXIT(pass(), ::testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FailPointTest, AnythingElseIsNamed) {
  for (const char* value : {"", "test.a", "test.a:", "test.a:0", "test.a:1x", ":1"}) {
    EXPECT_EXIT(Pass(value), ::testing::ExitedWithCode(2), "wanted NAME:N") << value;
  }
}

}  // namespace
}  // namespace kernelopt
