#include "base/cancel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace kernelopt {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "the flag is set in signal handlers");

// Made when the program is loaded, since a signal handler can't make it.
const int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

}  // namespace

void RequestCancel() noexcept {
  const int saved = errno;
  if (!requested.exchange(true)) {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(event_fd, &one, sizeof one);
  }
  errno = saved;
}

bool CancelRequested() noexcept {
  return requested.load();
}

int CancelFd() noexcept {
  return event_fd;
}

void ResetCancel() noexcept {
  uint64_t count;
  [[maybe_unused]] ssize_t n = read(event_fd, &count, sizeof count);
  requested.store(false);
}

Error Interrupted() {
  return Error{ErrorKind::kInterrupted, "interrupted",
               "interrupted; the same command again or `kernelopt resume` goes on", ""};
}

}  // namespace kernelopt
