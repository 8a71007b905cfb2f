#include "device/error_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kernelopt {
namespace {

using ::testing::HasSubstr;

ErrorPool Pool(double rms, double max, double own_rms, double own_max) {
  ErrorPool pool;
  pool.elements = 1000;
  pool.sum_z2 = rms * rms * 1000, pool.max_z = max;
  pool.own_sum_z2 = own_rms * own_rms * 1000, pool.own_max_z = own_max;
  return pool;
}

TEST(ErrorRule, WithATwinTheCompilersErrorsAreTheYardstick) {
  struct Case {
    ErrorPool pool;
    const char* said;  ///< empty = holds
  };
  for (const Case& c : {
           Case{Pool(0.4, 3, 0.4, 3), ""},
           Case{Pool(0.99, 7.9, 0.2, 1), ""},
           Case{Pool(1.01, 7.9, 0.2, 1), "in the mean"},
           Case{Pool(0.99, 8.1, 0.2, 1), "an element 8.1"},
           Case{Pool(1.59, 9.9, 1, 3), ""},
           Case{Pool(1.61, 9.9, 1, 3), "in the mean"},
           Case{Pool(0.4, 10.1, 0.4, 3), "an element 10.1"},
           Case{Pool(0, 0, 0, 0), ""},
           Case{Pool(0.001, 0.02, 0, 0), "exact"},
           Case{Pool(0, 0, 0.4, 3), ""},  // more exact than the compiler
           Case{Pool(NAN, 3, 0.4, 3), "in the mean"},
           Case{Pool(0.4, INFINITY, 0.4, 3), "an element inf"},
       }) {
    const std::string said = Violation(c.pool, ErrorRule{}, true);
    if (*c.said == '\0') {
      EXPECT_EQ(said, "");
    } else {
      EXPECT_THAT(said, HasSubstr(c.said));
    }
  }
}

TEST(ErrorRule, WithoutATwinOnlyTheMeanIsPooled) {
  EXPECT_EQ(Violation(Pool(1.4, 100, 0, 0), ErrorRule{}, false), "");
  EXPECT_THAT(Violation(Pool(1.6, 2, 0, 0), ErrorRule{}, false), HasSubstr("in the mean"));
}

TEST(ErrorRule, PoolsAdd) {
  KoptStats stats;
  KoptClearStats(&stats);
  stats.max_z = 4, stats.sum_z2 = 32, stats.own_max_z = 1, stats.own_sum_z2 = 8;
  stats.compared = 8;
  ErrorPool pool;
  pool.Add(stats, 3);
  ErrorPool all;
  all.Add(pool);
  all.Add(pool);
  EXPECT_EQ(all.elements, 16);
  EXPECT_EQ(all.last_set, 3);
  EXPECT_DOUBLE_EQ(all.Rms(), 2);
  EXPECT_DOUBLE_EQ(all.OwnRms(), 1);
  EXPECT_EQ(all.max_z, 4);
}

}  // namespace
}  // namespace kernelopt
