#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

TEST(ReadFile, GivesWhatWasWritten) {
  TestFolder folder;
  const std::string bytes("a\0\xff\n", 4);
  ASSERT_TRUE(WriteFileAtomic(folder / "f", bytes));
  EXPECT_EQ(*ReadFile(folder / "f"), bytes);
  EXPECT_EQ(*ReadFile(folder / "f", 4), bytes);
  EXPECT_EQ(*ReadFile("/dev/null"), "");
}

TEST(ReadFile, AWrongPathIsAWrongArgument) {
  TestFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "f", "12345"));
  std::filesystem::create_symlink("circle", folder / "circle");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  for (const std::string& path :
       {folder / "missing", folder / "f/below", folder / "circle", folder / "dangling",
        folder.path(), std::string(5000, 'x'), std::string()}) {
    const auto text = ReadFile(path);
    ASSERT_FALSE(text) << path;
    EXPECT_EQ(text.error().kind, ErrorKind::kUsage) << path;
    EXPECT_EQ(text.error().code, "no_such_file") << path;
    EXPECT_EQ(text.error().where, path);
  }
}

TEST(ReadFile, WhatNeverEndsIsRefused) {
  TestFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "f", "12345"));
  for (const auto& text : {ReadFile(folder / "f", 4), ReadFile("/dev/zero", 1 << 20)}) {
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, "too_large");
    EXPECT_EQ(text.error().kind, ErrorKind::kUsage);
  }
}

TEST(RemoveLeftovers, TakesWhatGoneProcessesWereMaking) {
  TestFolder folder;
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const std::string dead = "." + std::to_string(gone) + ".tmp";
  ASSERT_TRUE(MakeFolder(folder / ("deep/pack" + dead + "/kernels")));
  ASSERT_TRUE(MakeFolder(folder / "deep/pack"));
  const std::vector<std::string> stays = {"report.html",
                                          "a.tmp",
                                          "b.12x.tmp",
                                          ".tmp",
                                          "c.-5.tmp",
                                          "d.0.tmp",
                                          "e.99999999999999999.tmp",
                                          "live." + std::to_string(getppid()) + ".tmp",
                                          "deep/pack/f",
                                          "new" + dead + ".old"};
  for (const std::string& name : stays) ASSERT_TRUE(WriteFileAtomic(folder / name, "x"));
  const std::vector<std::string> goes = {"report.html" + dead, "deep/pack" + dead + "/kernels/k.py",
                                         TemporaryName("earlier")};
  for (const std::string& name : goes) ASSERT_TRUE(WriteFileAtomic(folder / name, "x"));
  RemoveLeftovers(folder.path(), "report.htm.");
  EXPECT_TRUE(PathExists(folder / goes[0]));
  RemoveLeftovers(folder.path(), "report.html.");
  EXPECT_FALSE(PathExists(folder / goes[0]));
  EXPECT_TRUE(PathExists(folder / goes[1]));
  RemoveLeftovers(folder.path());
  for (const std::string& name : stays) EXPECT_TRUE(PathExists(folder / name)) << name;
  for (const std::string& name : goes) EXPECT_FALSE(PathExists(folder / name)) << name;
  EXPECT_FALSE(PathExists(folder / ("deep/pack" + dead)));
  RemoveLeftovers(folder / "none");
}

TEST(PathExists, NeverThrows) {
  TestFolder folder;
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_TRUE(PathExists(folder.path()));
  for (const std::string& path :
       {folder / "none", folder / "circle", folder / "circle/x", std::string(5000, 'x')}) {
    EXPECT_FALSE(PathExists(path)) << path;
  }
}

TEST(WriteFileAtomic, LeavesTheOldFileWhereItFails) {
  TestFolder folder;
  EXPECT_EQ(WriteFileAtomic(folder / "none/f", "x").error().kind, ErrorKind::kEnvironment);
  ASSERT_TRUE(WriteFileAtomic(folder / "f", "old"));
  ASSERT_TRUE(WriteFileAtomic(folder / "f", "new"));
  EXPECT_EQ(*ReadFile(folder / "f"), "new");
  std::filesystem::create_directory(folder / "d");
  EXPECT_FALSE(WriteFileAtomic(folder / "d", "x"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(Json, KnowsUtf8) {
  for (const char* text : {"", "plain", "line\n", "\u00b5 \U0001f600"}) EXPECT_TRUE(IsUtf8(text));
  for (const char* text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf"}) EXPECT_FALSE(IsUtf8(text));
}

}  // namespace
}  // namespace kernelopt
