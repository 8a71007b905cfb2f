#include "pipeline/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

TEST(TemporaryFolder, GoesAwayWithItsLastOwner) {
  std::string path;
  {
    auto made = TemporaryFolder::Make("kernelopt-temporary");
    ASSERT_TRUE(made);
    path = made->path();
    ASSERT_TRUE(WriteFileAtomic(path + "/file", "x"));
    TemporaryFolder moved = std::move(*made);
    made = TemporaryFolder::Make("kernelopt-temporary");
    EXPECT_NE(made->path(), path);
    EXPECT_TRUE(std::filesystem::exists(path + "/file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// What a killed process leaves goes with the next folder of the name; what lives, and
// what only looks like one, stays.
TEST(TemporaryFolder, OfAKilledProcessGoesAwayLater) {
  TestFolder base;
  const char* before = std::getenv("TMPDIR");
  const std::string saved = before == nullptr ? "" : before;
  setenv("TMPDIR", base.path().c_str(), 1);
  ASSERT_TRUE(MakeFolder(base / "kernelopt-models"));
  ASSERT_TRUE(WriteFileAtomic(base / "kernelopt-models/mine", "x"));
  auto alive = TemporaryFolder::Make("kernelopt");
  ASSERT_TRUE(alive);
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto made = TemporaryFolder::Make("kernelopt");
    if (!made || !WriteFileAtomic(made->path() + "/file", "x")) _exit(1);
    (void)!write(told[1], made->path().data(), made->path().size());
    pause();
  }
  std::array<char, 256> text;
  const ssize_t length = read(told[0], text.data(), text.size());
  ASSERT_GT(length, 0);
  const std::string abandoned(text.data(), static_cast<size_t>(length));
  EXPECT_TRUE(TemporaryFolder::Make("kernelopt"));
  EXPECT_TRUE(PathExists(abandoned + "/file")) << "its owner lives";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(TemporaryFolder::Make("kernelopt"));
  EXPECT_FALSE(PathExists(abandoned));
  EXPECT_TRUE(PathExists(alive->path()));
  EXPECT_TRUE(PathExists(base / "kernelopt-models/mine"));
  close(told[0]);
  close(told[1]);
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", saved.c_str(), 1);
  }
}

}  // namespace
}  // namespace kernelopt
