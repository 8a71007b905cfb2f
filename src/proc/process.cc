#include "proc/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

extern char** environ;

namespace kernelopt {
namespace {

// All children are started by one thread that lives as long as the process: the
// kernel sends a parent-death signal when the *thread* that forked ends.
class StartingThread {
 public:
  static StartingThread& Get() {
    static auto* thread = new StartingThread;  // never destroyed: it ends with the process
    return *thread;
  }

  void Run(const std::function<void()>& job) {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return job_ == nullptr; });
    job_ = &job;
    work_.notify_one();
    done_.wait(lock, [&] { return job_ != &job; });
  }

 private:
  StartingThread() {
    // Signals belong to the other threads.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    std::thread([this] { Loop(); }).detach();
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }

  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return job_ != nullptr; });
      (*job_)();
      job_ = nullptr;
      done_.notify_all();
      free_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable free_, work_, done_;
  const std::function<void()>* job_ = nullptr;
};

// Children that outlived SIGKILL for a while.
std::mutex late_mutex;
std::vector<pid_t>& Late() {
  static auto* late = new std::vector<pid_t>;
  return *late;
}

void ReapLate() {
  std::lock_guard lock(late_mutex);
  std::erase_if(Late(), [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
}

Result<std::string> FindProgram(const std::string& name) {
  const auto missing = [&](std::string_view where) {
    return Fail(ErrorKind::kEnvironment, "no_such_program",
                fmt::format("there is no program '{}'{}; install it or name another", name, where));
  };
  if (name.empty()) return missing("");
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) != 0) return missing(" that can be run");
    return name;
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const size_t colon = folders.find(':');
    const std::string file = fmt::format("{}/{}", folders.substr(0, colon), name);
    if (file[0] == '/' && access(file.c_str(), X_OK) == 0) return file;
    if (colon == std::string_view::npos) return missing(" in PATH");
    folders.remove_prefix(colon + 1);
  }
}

std::vector<std::string> Environment(const Command& command) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool changed = std::any_of(command.environment.begin(), command.environment.end(),
                                     [&](const auto& change) { return change.first == name; });
    if (!changed) result.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) {
    if (value) result.push_back(name + "=" + *value);
  }
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs after fork(), made before it: the child may
// only make async-signal-safe calls.
struct Plan {
  const char* program;
  char** argv;
  char** envp;
  const char* folder;  // or null
  const Command* command;
  int in, out, err, failed;  // the child's ends
  pid_t parent;
};

bool SetLimit(__rlimit_resource resource, int64_t bytes) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return false;
  // A limit that is already lower stays: raising it needs privileges.
  limit.rlim_cur = limit.rlim_max = std::min<rlim_t>(static_cast<rlim_t>(bytes), limit.rlim_max);
  return setrlimit(resource, &limit) == 0;
}

void CloseFrom(unsigned first) {
  if (syscall(SYS_close_range, first, ~0U, 0U) == 0) return;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int last = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 16));
  for (int fd = static_cast<int>(first); fd < last; ++fd) close(fd);
}

// Moves the four descriptors to 0, 1, 2 and 3 whatever their numbers are.
bool PlaceDescriptors(const Plan& plan) {
  int from[4] = {plan.in, plan.out, plan.err, plan.failed};
  for (int& fd : from) {
    fd = fcntl(fd, F_DUPFD, 10);
    if (fd < 0) return false;
  }
  for (int to = 0; to < 4; ++to) {
    if (dup2(from[to], to) < 0) return false;
  }
  return fcntl(3, F_SETFD, FD_CLOEXEC) == 0;
}

[[noreturn]] void BecomeChild(const Plan& plan) {
  int report = plan.failed;
  const auto fail = [&] {
    const int error_number = errno;
    [[maybe_unused]] ssize_t n = write(report, &error_number, sizeof error_number);
    _exit(127);
  };
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (getppid() != plan.parent) _exit(127);  // the parent ended before the line above
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  if (!PlaceDescriptors(plan)) fail();
  report = 3;
  CloseFrom(4);
  SetLimit(RLIMIT_CORE, 0);
  const Command& command = *plan.command;
  if (command.data_bytes && !SetLimit(RLIMIT_DATA, *command.data_bytes)) fail();
  if (command.address_space_bytes && !SetLimit(RLIMIT_AS, *command.address_space_bytes)) fail();
  if (plan.folder != nullptr && chdir(plan.folder) != 0) fail();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.program, plan.argv, plan.envp);
  fail();
  __builtin_unreachable();
}

bool MakePipe(UniqueFd& read_end, UniqueFd& write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  read_end = UniqueFd(fds[0]);
  write_end = UniqueFd(fds[1]);
  return true;
}

std::unexpected<Error> NotStartable(const Command& command, int error_number) {
  return Fail(
      ErrorKind::kEnvironment, "not_startable",
      fmt::format("'{}' could not be started: {}", command.argv[0], std::strerror(error_number)),
      command.folder);
}

}  // namespace

void UniqueFd::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string ExitStatus::ToString() const {
  if (signal != 0) return fmt::format("signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

Result<Process> Process::Start(const Command& command) {
  ReapLate();
  const std::string program = KOPT_TRY(FindProgram(command.argv.empty() ? "" : command.argv[0]));
  std::vector<std::string> arguments = command.argv;
  std::vector<std::string> environment = Environment(command);
  std::vector<char*> argv = Pointers(arguments);
  std::vector<char*> envp = Pointers(environment);

  Process process;
  UniqueFd in, out, err, failed, failure;
  if (!MakePipe(in, process.in_) || !MakePipe(process.out_, out) || !MakePipe(process.err_, err) ||
      !MakePipe(failure, failed)) {
    return NotStartable(command, errno);
  }
  const Plan plan{program.c_str(), argv.data(),
                  envp.data(),     command.folder.empty() ? nullptr : command.folder.c_str(),
                  &command,        in.get(),
                  out.get(),       err.get(),
                  failed.get(),    getpid()};
  int fork_error = 0;
  StartingThread::Get().Run([&] {
    process.pid_ = fork();
    if (process.pid_ == 0) BecomeChild(plan);
    fork_error = errno;
  });
  if (process.pid_ < 0) return NotStartable(command, fork_error);
  setpgid(process.pid_, process.pid_);  // both sides, whichever comes first
  failed.Close();
  int error_number = 0;
  ssize_t n;
  do {
    n = read(failure.get(), &error_number, sizeof error_number);
  } while (n < 0 && errno == EINTR);
  if (n > 0) return NotStartable(command, error_number);
  for (UniqueFd* fd : {&process.in_, &process.out_, &process.err_}) {
    fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }
  // glibc 2.36's <sys/pidfd.h> can't be included from C++.
  process.pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process.pid_, 0)));
  return process;
}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    End();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    in_ = std::move(other.in_);
    out_ = std::move(other.out_);
    err_ = std::move(other.err_);
  }
  return *this;
}

void Process::Kill() {
  // Not reaped yet, so that the number can't belong to another group.
  if (pid_ > 0) kill(-pid_, SIGKILL);
}

std::optional<ExitStatus> Process::Wait(int64_t limit_ms) {
  if (pid_ <= 0) return std::nullopt;
  const int64_t deadline = MonotonicMs() + limit_ms;
  siginfo_t info{};
  while (true) {
    info.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      pid_ = -1;  // reaped by foreign code (a SIGCHLD that is ignored): nothing is known
      return ExitStatus{.exit_code = -1, .signal = 0};
    }
    if (info.si_pid == pid_) break;
    const int64_t left = deadline - MonotonicMs();
    if (left <= 0) return std::nullopt;
    pollfd entry{pidfd_.get(), POLLIN, 0};
    poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, pidfd_.valid() ? 60000 : kSliceMs)));
  }
  Kill();  // what is left of the group
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  ExitStatus status;
  if (info.si_code == CLD_EXITED) {
    status.exit_code = info.si_status;
  } else {
    status.signal = info.si_status;
  }
  return status;
}

void Process::End() {
  if (pid_ > 0) {
    Kill();
    constexpr int64_t kPatienceMs = 5000;
    if (!Wait(kPatienceMs)) {
      std::lock_guard lock(late_mutex);
      Late().push_back(pid_);
      pid_ = -1;
    }
  }
  pidfd_.Close();
  in_.Close();
  out_.Close();
  err_.Close();
}

int64_t MonotonicMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

bool ReadAvailable(int fd, std::string& to) {
  char buffer[1 << 16];
  // Bounded, so that a child that never stops talking does not hold the loop.
  for (int round = 0; round < 64; ++round) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) {
      to.append(buffer, static_cast<size_t>(n));
      if (static_cast<size_t>(n) < sizeof buffer) return true;
      continue;
    }
    if (n == 0) return false;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

bool WriteAvailable(int fd, std::string_view& bytes) {
  // SIGPIPE is blocked for the time of the write and taken away if it came, so
  // that the program's own handling of it stays as it is.
  sigset_t pipe_signal, old, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &old);
  bool open = true;
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    open = n == 0 || errno == EAGAIN || errno == EWOULDBLOCK;
    if (n < 0 && errno == EPIPE && !was_pending) {
      const timespec now{};
      while (sigtimedwait(&pipe_signal, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    break;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return open;
}

int PollUntil(pollfd* entries, size_t count, int64_t limit_ms) {
  const int64_t deadline = MonotonicMs() + limit_ms;
  while (true) {
    int wait = -1;
    if (limit_ms >= 0) {
      wait = static_cast<int>(std::clamp<int64_t>(deadline - MonotonicMs(), 0, 1 << 30));
    }
    const int n = poll(entries, count, wait);
    if (n >= 0 || errno != EINTR) return n;
  }
}

}  // namespace kernelopt
