#include "base/cancel.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

namespace kernelopt {
namespace {

bool Readable() {
  pollfd entry{CancelFd(), POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

TEST(Cancel, SetBySignalSeenByPollAndTakenBack) {
  ASSERT_FALSE(CancelRequested());
  EXPECT_FALSE(Readable());
  auto old = std::signal(SIGUSR1, [](int) { RequestCancel(); });
  raise(SIGUSR1);
  raise(SIGUSR1);
  std::signal(SIGUSR1, old);
  EXPECT_TRUE(CancelRequested());
  EXPECT_TRUE(Readable());
  ResetCancel();
  EXPECT_FALSE(CancelRequested());
  EXPECT_FALSE(Readable());
  EXPECT_EQ(Interrupted().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace kernelopt
