// One run at a time in a folder: an advisory lock on FOLDER/lock, which the
// kernel drops when the process ends, however it ends.
#pragma once

#include <string>

#include "base/result.h"

namespace kernelopt::store {

class RunLock {
 public:
  RunLock() = default;
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

  /// Errors: kUsage "run_in_use" with the holder's process id and host;
  /// kEnvironment "not_writable", "disk_full".
  static Result<RunLock> Take(const std::string& folder);

 private:
  int fd_ = -1;
};

}  // namespace kernelopt::store
