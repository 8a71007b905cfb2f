// A folder of its own for one test, removed when the test ends; in memory where
// the system has such a place, since a store syncs after every row.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

namespace kernelopt {

class TestFolder {
 public:
  TestFolder() {
    namespace fs = std::filesystem;
    std::string pattern = "/dev/shm/kopt-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      pattern = (fs::temp_directory_path() / "kopt-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) std::abort();
    }
    path_ = pattern;
  }
  /// One that is there and stays, for what several processes do in turn.
  explicit TestFolder(std::string existing) : path_(std::move(existing)), stays_(true) {}
  ~TestFolder() {
    if (!stays_) std::filesystem::remove_all(path_);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool stays_ = false;
};

}  // namespace kernelopt
