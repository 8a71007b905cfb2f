#include "base/clock.h"

#include <gtest/gtest.h>

namespace kernelopt {
namespace {

TEST(Duration, Formats) {
  EXPECT_EQ(FormatDuration(-1), "0 s");
  EXPECT_EQ(FormatDuration(0.44), "0.4 s");
  EXPECT_EQ(FormatDuration(9.96), "10 s");
  EXPECT_EQ(FormatDuration(59.4), "59 s");
  EXPECT_EQ(FormatDuration(59.6), "1 min");
  EXPECT_EQ(FormatDuration(185), "3 min 5 s");
  EXPECT_EQ(FormatDuration(4320), "1 h 12 min");
}

TEST(Duration, Parses) {
  EXPECT_EQ(ParseDuration("10m"), 600);
  EXPECT_EQ(ParseDuration("90s"), 90);
  EXPECT_EQ(ParseDuration("1h30m"), 5400);
  EXPECT_EQ(ParseDuration("600"), 600);
  EXPECT_EQ(ParseDuration("1.5m"), 90);
  for (const char* bad : {"", "m", "10x", "ten", "-5", "1m30", ".", "1..2s", "9999999999s"}) {
    EXPECT_LT(ParseDuration(bad), 0) << bad;
  }
}

}  // namespace
}  // namespace kernelopt
