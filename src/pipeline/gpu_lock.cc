#include "pipeline/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>

#include "base/fail_point.h"
#include "base/file.h"

namespace kernelopt {
namespace {

/// A file of another user can be locked through a read-only descriptor, and
/// must be opened without O_CREAT (fs.protected_regular).
int OpenLockFile(const std::string& path) {
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0 && errno == ENOENT) {
    descriptor = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  }
  return descriptor;
}

}  // namespace

GpuLock::GpuLock(GpuLock&& other) noexcept : descriptor_(other.descriptor_) {
  other.descriptor_ = -1;
}

GpuLock& GpuLock::operator=(GpuLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

GpuLock::~GpuLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<GpuLock> GpuLock::Take(const std::string& uuid, const std::string& cache,
                              const std::function<void()>& waiting,
                              const std::function<bool()>& cancelled) {
  std::string name = "kernelopt-gpu-";
  for (char c : uuid) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  name += ".lock";
  GpuLock lock;
  lock.descriptor_ = OpenLockFile("/tmp/" + name);
  if (lock.descriptor_ < 0) lock.descriptor_ = OpenLockFile(cache + "/" + name);
  if (lock.descriptor_ < 0) {
    return std::unexpected(ErrnoError(errno, "not_writable", cache + "/" + name, "open"));
  }
  bool told = false;
  while (flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return std::unexpected(ErrnoError(errno, "not_writable", name, "lock"));
    }
    if (!told && waiting) waiting();
    told = true;
    if (cancelled && cancelled()) {
      return Fail(ErrorKind::kInterrupted, "interrupted", "stopped while waiting for the GPU");
    }
    timespec pause{0, 100'000'000};
    nanosleep(&pause, nullptr);
  }
  FailPoint("gpu_lock.taken");
  return lock;
}

}  // namespace kernelopt
