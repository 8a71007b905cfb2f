// One child process: started in a process group of its own, always reaped.
//
//   Command command{.argv = {"python3", "-c", "print(1)"}};
//   Process process = KOPT_TRY(Process::Start(command));
//   ... process.out() is the read end of its standard output ...
//   process.Kill();                    // the whole group
//   ExitStatus status = *process.Wait(1000);
//
// Most callers want RunChild (run_child.h: a command to its end) or FramedChild
// (framed_child.h: a child that answers requests) instead.
//
// What every child gets: its own process group, SIGKILL when this process ends,
// default signal handlers and an empty signal mask, no descriptor but 0, 1 and 2,
// no core files. The destructor kills the group and reaps.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace kernelopt {

/// A file descriptor that is closed with its owner.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

struct Command {
  /// The program and its arguments; a name without '/' is looked up in PATH.
  std::vector<std::string> argv;
  /// Changes to this process's environment: a value to set, or nothing to unset.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  std::string folder;  ///< working folder, empty = this process's
  /// Limit of private memory (RLIMIT_DATA), which counts no reserved address space.
  std::optional<int64_t> data_bytes;
  /// Limit of the address space (RLIMIT_AS); CUDA needs it unlimited.
  std::optional<int64_t> address_space_bytes;
};

struct ExitStatus {
  int exit_code = 0;  ///< when it ended by itself
  int signal = 0;     ///< when a signal ended it, else 0

  bool ok() const { return signal == 0 && exit_code == 0; }
  /// "exit code 3" or "signal 11 (Segmentation fault)"
  std::string ToString() const;
};

class Process {
 public:
  /// Errors: kEnvironment "no_such_program", "not_startable".
  static Result<Process> Start(const Command& command);

  Process() = default;
  Process(Process&& other) noexcept { *this = std::move(other); }
  Process& operator=(Process&& other) noexcept;
  ~Process() { End(); }

  bool running() const { return pid_ > 0; }  ///< started and not reaped
  pid_t pid() const { return pid_; }
  /// Readable in poll() once the child has ended; -1 where the kernel has none
  /// (then callers poll in slices of kSliceMs and ask Wait(0)).
  int pidfd() const { return pidfd_.get(); }
  static constexpr int kSliceMs = 20;

  /// This side's ends of the three pipes, non-blocking.
  UniqueFd& in() { return in_; }
  UniqueFd& out() { return out_; }
  UniqueFd& err() { return err_; }

  /// SIGKILL to the whole group, also to what is left of it after its leader ended.
  void Kill();

  /// Waits up to `limit_ms` for the end and reaps; nothing = still running. What
  /// is left of the group is killed with its leader.
  std::optional<ExitStatus> Wait(int64_t limit_ms);

  /// Kills and reaps. A child that even SIGKILL does not end soon (stuck in a
  /// driver) is reaped at a later start.
  void End();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_, in_, out_, err_;
};

/// Milliseconds of a clock that never goes back.
int64_t MonotonicMs();

/// Reads what is there. Gives false at the end of the stream.
bool ReadAvailable(int fd, std::string& to);

/// Writes what fits and removes it from `bytes`; SIGPIPE is never raised.
/// Gives false when the reader is gone.
bool WriteAvailable(int fd, std::string_view& bytes);

/// poll() that goes on after a signal; a negative `limit_ms` waits without limit.
int PollUntil(pollfd* entries, size_t count, int64_t limit_ms);

}  // namespace kernelopt
