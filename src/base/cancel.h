// The wish to stop, one a process: Ctrl-C sets it, long work looks at it.
//
//   std::signal(SIGINT, [](int) { kernelopt::RequestCancel(); });
//   ...
//   if (CancelRequested()) return std::unexpected(Interrupted());
//
// Whoever waits in poll() adds CancelFd() to its set, so that the wish ends the
// wait at once.
#pragma once

#include "base/result.h"

namespace kernelopt {

/// May be called from a signal handler and from any thread, any number of times.
void RequestCancel() noexcept;

bool CancelRequested() noexcept;

/// A descriptor that is readable while the wish stands; for poll() only, it is
/// neither read nor closed by others.
int CancelFd() noexcept;

/// Takes the wish back: a new run in the same process, and tests.
void ResetCancel() noexcept;

/// kInterrupted "interrupted".
Error Interrupted();

}  // namespace kernelopt
