#include "pipeline/locate.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;

class LocateTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/kernelopt_locate";
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const char* name : {"KERNELOPT_PYTHON", "VIRTUAL_ENV", "PATH", "XDG_CACHE_HOME"}) {
      const char* value = getenv(name);
      saved_.emplace_back(name, value ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (auto& [name, value] : saved_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
    fs::remove_all(root_);
  }
  std::string Program(const std::string& path) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    EXPECT_TRUE(WriteFileAtomic(root_ + "/" + path, "#!/bin/sh\n"));
    chmod((root_ + "/" + path).c_str(), 0755);
    return root_ + "/" + path;
  }
  void Package(const std::string& folder) {
    fs::create_directories(root_ + "/" + folder);
    for (const char* file : {"__init__.py", "framing.py"}) {
      EXPECT_TRUE(WriteFileAtomic(root_ + "/" + folder + "/" + file, ""));
    }
  }
  std::string root_;
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

TEST_F(LocateTest, PythonIsTakenInOrder) {
  EXPECT_FALSE(FindPython(""));
  std::string on_path = Program("path/python3");
  setenv("PATH", (root_ + "/path").c_str(), 1);
  EXPECT_EQ(*FindPython(""), on_path);
  std::string active = Program("venv/bin/python3");
  setenv("VIRTUAL_ENV", (root_ + "/venv").c_str(), 1);
  EXPECT_EQ(*FindPython(""), active);
  std::string named = Program("named");
  setenv("KERNELOPT_PYTHON", named.c_str(), 1);
  EXPECT_EQ(*FindPython(""), named);
  EXPECT_EQ(*FindPython(on_path), on_path);
  EXPECT_EQ(*FindPython("python3"), on_path);
}

TEST_F(LocateTest, AGivenPythonIsNeverReplacedByAnother) {
  Program("path/python3");
  setenv("PATH", (root_ + "/path").c_str(), 1);
  auto python = FindPython("/nonexistent/python");
  ASSERT_FALSE(python);
  EXPECT_EQ(python.error().kind, ErrorKind::kEnvironment);
  EXPECT_EQ(python.error().code, "python_missing");
  setenv("KERNELOPT_PYTHON", "no-such-python", 1);
  EXPECT_FALSE(FindPython(""));
}

TEST_F(LocateTest, PackageOfASourceTree) {
  Package("python/kernelopt");
  EXPECT_EQ(*PackageFolder(root_ + "/build/dev/src/cli/kernelopt", root_ + "/cache"),
            root_ + "/python");
}

TEST_F(LocateTest, PackageOfAWheelIsReachedAlone) {
  Package("site-packages/kernelopt");
  fs::create_directories(root_ + "/site-packages/torch");
  for (int i = 0; i < 2; ++i) {
    std::string folder =
        *PackageFolder(root_ + "/site-packages/kernelopt/bin/kernelopt", root_ + "/cache");
    EXPECT_TRUE(fs::exists(folder + "/kernelopt/__init__.py"));
    EXPECT_FALSE(fs::exists(folder + "/torch"));
  }
}

TEST_F(LocateTest, NoPackageMeansInstalled) {
  EXPECT_EQ(*PackageFolder(root_ + "/a/b/kernelopt", root_ + "/cache"), "");
}

TEST_F(LocateTest, CacheFolderFollowsXdg) {
  setenv("XDG_CACHE_HOME", (root_ + "/xdg").c_str(), 1);
  EXPECT_EQ(*CacheFolder(), root_ + "/xdg/kernelopt");
  EXPECT_TRUE(fs::is_directory(root_ + "/xdg/kernelopt"));
}

}  // namespace
}  // namespace kernelopt
