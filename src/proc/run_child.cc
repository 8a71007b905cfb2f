#include "proc/run_child.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "base/cancel.h"
#include "proc/tail_buffer.h"

namespace kernelopt {
namespace {

// Takes what can be taken from one stream of the child and closes it at its end.
template <typename Take>
void Drain(UniqueFd& fd, const Take& take) {
  if (!fd.valid()) return;
  std::string bytes;
  const bool open = ReadAvailable(fd.get(), bytes);
  take(bytes);
  if (!open) fd.Close();
}

}  // namespace

Result<RunResult> RunChild(const RunOptions& options) {
  if (CancelRequested()) return std::unexpected(Interrupted());
  const int64_t start = MonotonicMs();
  Process process = KOPT_TRY(Process::Start(options.command));
  RunResult result;
  TailBuffer err;
  std::string_view input = options.input;
  const auto drain = [&] {
    Drain(process.out(), [&](const std::string& bytes) { result.out += bytes; });
    Drain(process.err(), [&](const std::string& bytes) { err.Append(bytes); });
  };
  while (true) {
    if (input.empty() && process.in().valid()) process.in().Close();
    const int64_t left = start + options.limit_ms - MonotonicMs();
    if (left <= 0) {
      result.outcome = RunOutcome::kTimeout;
      break;
    }
    if (CancelRequested()) return std::unexpected(Interrupted());
    // poll() skips entries whose descriptor is negative.
    std::array<pollfd, 5> entries = {{{CancelFd(), POLLIN, 0},
                                      {process.pidfd(), POLLIN, 0},
                                      {process.in().get(), POLLOUT, 0},
                                      {process.out().get(), POLLIN, 0},
                                      {process.err().get(), POLLIN, 0}}};
    PollUntil(entries.data(), entries.size(),
              process.pidfd() >= 0 ? left : std::min<int64_t>(left, Process::kSliceMs));
    if (process.in().valid() && entries[2].revents != 0 &&
        !WriteAvailable(process.in().get(), input)) {
      input = {};
    }
    drain();
    if (result.out.size() > options.max_out_bytes) {
      result.outcome = RunOutcome::kTooMuchOutput;
      break;
    }
    // The end is that of the child itself: what it left behind may hold the pipes.
    if (auto status = process.Wait(0)) {
      result.status = *status;
      result.outcome = status->signal != 0 ? RunOutcome::kSignal : RunOutcome::kExited;
      break;
    }
  }
  if (process.running()) {
    process.Kill();
    if (auto status = process.Wait(1000)) result.status = *status;
  }
  drain();
  if (result.out.size() > options.max_out_bytes) result.out.resize(options.max_out_bytes);
  result.err_tail = err.Text();
  result.wall_ms = MonotonicMs() - start;
  return result;
}

}  // namespace kernelopt
