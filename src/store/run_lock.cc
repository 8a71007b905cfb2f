#include "store/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/fail_point.h"
#include "base/file.h"

namespace kernelopt::store {

RunLock::RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

// The file stays: removing it would let a third process lock a new file of the
// same name while a second one holds the old one.
RunLock::~RunLock() {
  if (fd_ >= 0) close(fd_);
}

Result<RunLock> RunLock::Take(const std::string& folder) {
  const std::string path = folder + "/lock";
  RunLock lock;
  lock.fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.fd_ < 0) {
    return std::unexpected(ErrnoError(errno, "not_writable", path, "open the run's lock"));
  }
  FailPoint("lock.open");
  while (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      return std::unexpected(ErrnoError(errno, "not_writable", path, "lock the run folder"));
    }
    std::array<char, 256> holder;
    const ssize_t n = std::max<ssize_t>(0, pread(lock.fd_, holder.data(), holder.size(), 0));
    std::string who(holder.data(), static_cast<size_t>(n));
    who.erase(std::min(who.find('\n'), who.size()));
    return Fail(ErrorKind::kUsage, "run_in_use",
                fmt::format("another run is working in this folder ({}); wait for it, stop it, "
                            "or choose another folder with --out",
                            who.empty() ? "process unknown" : who),
                folder);
  }
  FailPoint("lock.taken");
  std::array<char, 128> host = {};
  gethostname(host.data(), host.size() - 1);
  const std::string text = fmt::format("process {} on {}\n", getpid(), host.data());
  if (ftruncate(lock.fd_, 0) != 0 ||
      pwrite(lock.fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return std::unexpected(ErrnoError(errno, "not_writable", path, "write the run's lock"));
  }
  FailPoint("lock.done");
  return lock;
}

}  // namespace kernelopt::store
