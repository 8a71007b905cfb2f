// One tenant at a time measures on a GPU: an advisory lock a GPU UUID, which
// the kernel drops when the process ends, however it ends.
//
// The file lies in /tmp, so that the runs of all users of a machine meet in
// it; where that can't be (a full or read-only /tmp), in the user's cache.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace kernelopt {

class GpuLock {
 public:
  GpuLock() = default;
  GpuLock(GpuLock&& other) noexcept;
  GpuLock& operator=(GpuLock&& other) noexcept;
  GpuLock(const GpuLock&) = delete;
  ~GpuLock();

  /// Waits for the lock. `waiting` is called once when there is something to
  /// wait for; `cancelled` ends the wait. Errors: kInterrupted "interrupted",
  /// kEnvironment "not_writable".
  static Result<GpuLock> Take(const std::string& uuid, const std::string& cache,
                              const std::function<void()>& waiting,
                              const std::function<bool()>& cancelled);

 private:
  int descriptor_ = -1;
};

}  // namespace kernelopt
