// A folder in $TMPDIR or /tmp that goes away with its owner.
#pragma once

#include <string>

#include "base/result.h"

namespace kernelopt {

class TemporaryFolder {
 public:
  /// Errors: kEnvironment "not_writable", "disk_full".
  static Result<TemporaryFolder> Make(const std::string& name);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace kernelopt
