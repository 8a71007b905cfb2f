#include "proc/run_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/cancel.h"

namespace kernelopt {
namespace {

using ::testing::HasSubstr;

RunOptions RunShell(std::string script, int64_t limit_ms = 30000) {
  RunOptions options;
  options.command.argv = {"sh", "-c", std::move(script)};
  options.limit_ms = limit_ms;
  return options;
}

// Runs and is no zombie that waits for its new parent to reap it.
bool Alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  return text[text.rfind(')') + 2] != 'Z';
}

TEST(RunChild, OutputErrorsAndExitCode) {
  auto result = RunChild(RunShell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->outcome, RunOutcome::kExited);
  EXPECT_EQ(result->status.exit_code, 3);
  EXPECT_EQ(result->status.ToString(), "exit code 3");
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err_tail, "err\n");
}

TEST(RunChild, LargeInputAndOutputDoNotBlock) {
  RunOptions options = RunShell("cat; cat /dev/zero | head -c 1000000 >&2");
  options.input.assign(5 << 20, 'x');
  auto result = RunChild(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, options.input);
  EXPECT_EQ(result->err_tail.size(), 64u << 10);
}

TEST(RunChild, ChildThatReadsNothingRaisesNoSigpipe) {
  RunOptions options = RunShell("exec <&-; sleep 0.1; echo done");
  options.input.assign(5 << 20, 'x');
  auto result = RunChild(options);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->status.ok());
  EXPECT_EQ(result->out, "done\n");
}

TEST(RunChild, Signal) {
  auto result = RunChild(RunShell("kill -SEGV $$"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->outcome, RunOutcome::kSignal);
  EXPECT_EQ(result->status.signal, SIGSEGV);
  EXPECT_THAT(result->status.ToString(), HasSubstr("Segmentation fault"));
}

TEST(RunChild, TimeoutKillsTheWholeGroup) {
  auto result = RunChild(RunShell("sleep 100 & echo $!; wait", 200));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->outcome, RunOutcome::kTimeout);
  EXPECT_LT(result->wall_ms, 20000);
  const pid_t grandchild = std::stoi(result->out);
  for (int i = 0; i < 100 && Alive(grandchild); ++i) usleep(10000);
  EXPECT_FALSE(Alive(grandchild));
}

TEST(RunChild, WhatIsLeftBehindEndsWithTheChild) {
  auto result = RunChild(RunShell("sleep 100 & echo $!"));  // it keeps the pipes open
  ASSERT_TRUE(result);
  EXPECT_EQ(result->outcome, RunOutcome::kExited);
  EXPECT_LT(result->wall_ms, 20000);
  const pid_t grandchild = std::stoi(result->out);
  for (int i = 0; i < 100 && Alive(grandchild); ++i) usleep(10000);
  EXPECT_FALSE(Alive(grandchild));
}

TEST(RunChild, TooMuchOutput) {
  RunOptions options = RunShell("yes");
  options.max_out_bytes = 1000000;
  auto result = RunChild(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->outcome, RunOutcome::kTooMuchOutput);
  EXPECT_EQ(result->out.size(), 1000000u);
}

TEST(RunChild, MissingProgram) {
  RunOptions options;
  for (const char* name : {"kernelopt-no-such-program", "/no/such/program", ""}) {
    options.command.argv = {name};
    auto result = RunChild(options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, "no_such_program");
    EXPECT_EQ(result.error().kind, ErrorKind::kEnvironment);
  }
  options = RunShell("true");
  options.command.folder = "/no/such/folder";
  auto result = RunChild(options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "not_startable");
  EXPECT_EQ(result.error().where, "/no/such/folder");
}

TEST(RunChild, EnvironmentFolderAndLimits) {
  setenv("KERNELOPT_TEST_GONE", "1", 1);
  setenv("KERNELOPT_TEST_CHANGED", "1", 1);
  RunOptions options = RunShell(
      "echo \"$KERNELOPT_TEST_GONE:$KERNELOPT_TEST_CHANGED:$KERNELOPT_TEST_NEW\"; pwd; ulimit -c; "
      "ulimit -d");
  options.command.environment = {{"KERNELOPT_TEST_GONE", std::nullopt},
                                 {"KERNELOPT_TEST_CHANGED", "2"},
                                 {"KERNELOPT_TEST_NEW", "a b"}};
  options.command.folder = "/";
  options.command.data_bytes = 64 << 20;
  auto result = RunChild(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, ":2:a b\n/\n0\n65536\n");
  unsetenv("KERNELOPT_TEST_GONE");
  unsetenv("KERNELOPT_TEST_CHANGED");
}

TEST(RunChild, OnlyThreeDescriptorsDefaultSignalsOwnGroup) {
  int leak = dup(0);  // without close-on-exec
  auto old = signal(SIGPIPE, SIG_IGN);
  auto result = RunChild(RunShell(
      "ls /proc/self/fd | wc -l; grep SigIgn /proc/self/status; cut -d' ' -f5 /proc/$$/stat; "
      "echo $$"));
  signal(SIGPIPE, old);
  close(leak);
  ASSERT_TRUE(result);
  // 0, 1, 2 and the one that ls reads the folder with.
  std::istringstream lines(result->out);
  std::string count, label, ignored, group, pid;
  lines >> count >> label >> ignored >> group >> pid;
  EXPECT_EQ(count, "4");
  EXPECT_EQ(ignored, "0000000000000000");
  EXPECT_EQ(group, pid);
}

TEST(RunChild, CancelEndsTheWait) {
  std::thread later([] {
    usleep(100000);
    RequestCancel();
  });
  const int64_t start = MonotonicMs();
  auto result = RunChild(RunShell("sleep 100", 60000));
  later.join();
  ResetCancel();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kInterrupted);
  EXPECT_LT(MonotonicMs() - start, 20000);
}

TEST(RunChild, ChildOutlivesTheThreadThatStartedIt) {
  Process process;
  std::thread([&] {
    Command command;
    command.argv = {"sh", "-c", "sleep 0.2; exit 7"};
    process = std::move(*Process::Start(command));
  }).join();
  auto status = process.Wait(30000);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->exit_code, 7);
}

TEST(RunChild, ChildrenEndWithTheirParent) {
  // This program is run once more, as a parent that starts a child and is killed.
  const std::string file = testing::TempDir() + "kernelopt_orphan_test";
  std::filesystem::remove(file);
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  ASSERT_GT(n, 0);
  Command command;
  command.argv = {std::string(self, static_cast<size_t>(n)), "--gtest_filter=DISABLED_Orphan.*",
                  "--gtest_also_run_disabled_tests"};
  command.environment = {{"KERNELOPT_ORPHAN_FILE", file}};
  Process parent = std::move(*Process::Start(command));
  pid_t child = 0;
  for (int i = 0; i < 500 && child == 0; ++i) {
    usleep(10000);
    std::ifstream(file) >> child;
  }
  ASSERT_GT(child, 0);
  EXPECT_TRUE(Alive(child));
  parent.End();  // its group does not hold the child, which has its own
  for (int i = 0; i < 200 && Alive(child); ++i) usleep(10000);
  EXPECT_FALSE(Alive(child));
  std::filesystem::remove(file);
}

TEST(DISABLED_Orphan, StartsAChildAndWaits) {
  Command command;
  command.argv = {"sleep", "100"};
  Process child = std::move(*Process::Start(command));
  const std::string file = getenv("KERNELOPT_ORPHAN_FILE");
  std::ofstream(file + ".new") << child.pid() << "\n";
  std::filesystem::rename(file + ".new", file);
  child.Wait(100000);
}

}  // namespace
}  // namespace kernelopt
