#include "cli/output.h"

#include <gtest/gtest.h>

namespace kernelopt {
namespace {

TEST(ErrorLine, IsOneLineWithThePlace) {
  EXPECT_EQ(ErrorLine({ErrorKind::kModel, "forward_raises", "forward raises", "m.py:3"}),
            "kernelopt: m.py:3: forward raises\n");
  EXPECT_EQ(ErrorLine({ErrorKind::kUsage, "usage", "no command", ""}), "kernelopt: no command\n");
  EXPECT_EQ(ErrorLine({ErrorKind::kModel, "x", "two\nlines\x1b[2J", ""}),
            "kernelopt: two lines [2J\n");
}

TEST(Output, ExitCodesAreTheKinds) {
  EXPECT_EQ(Output(false).Finish({}), 0);
  for (ErrorKind kind :
       {ErrorKind::kInternal, ErrorKind::kUsage, ErrorKind::kEnvironment, ErrorKind::kModel,
        ErrorKind::kInterrupted, ErrorKind::kMismatch, ErrorKind::kOutdated}) {
    EXPECT_EQ(Output(false).Finish(Fail(kind, "x", "x")), static_cast<int>(kind));
  }
}

}  // namespace
}  // namespace kernelopt
