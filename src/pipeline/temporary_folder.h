// A folder in $TMPDIR or /tmp that goes away with its owner: with the object, or,
// where its process is killed, when the next folder of the same name is made.
//
// NAME-XXXXXX/.owner is locked (flock) as long as the owner lives. Only folders
// with such a file that nobody holds are taken for leftovers.
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
  TemporaryFolder(std::string path, int owner) : path_(std::move(path)), owner_(owner) {}
  std::string path_;
  int owner_;  ///< descriptor of .owner
};

}  // namespace kernelopt
