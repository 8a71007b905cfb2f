// A long-lived child that answers requests in frames (docs/protocol.md).
//
//   FramedChild child({.command = {.argv = {"kernelopt", "judge"}}, .name = "judge"});
//   Result<Json> facts = child.Call("facts", Json::object(), 20000);
//
// The child is started by the first call, and again by the next call after it
// was killed or ended. `hello` is asked of every new child before anything else;
// a call's time limit begins when it is answered. A call ends in one of a closed
// set, see CallOutcome; for all but kOk the Result is an error:
//   kJobError       the child's own error: its kind, code, message and place
//   kSickDevice     the child's error "sick_device"; the child is killed
//   kTimeout        code "timeout"; the child's group was killed
//   kDied           code "died", with exit code or signal and its last words
//   kProtocolError  code "protocol_error"; the child was killed
//   kNotStarted     the error of Process::Start
//   kInterrupted    code "interrupted" (base/cancel.h); the child was killed
//
// Several children at once: Begin() on each, then WaitAny() until one is done(),
// then Take() its result. One thread at a time per child.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "proc/process.h"

namespace kernelopt {

inline constexpr int kProtocolVersion = 1;

enum class CallOutcome {
  kOk,
  kJobError,
  kTimeout,
  kDied,
  kSickDevice,
  kProtocolError,
  kNotStarted,
  kInterrupted,
};

struct FramedChildOptions {
  Command command;
  std::string name;                 ///< for messages: "compile worker"
  int64_t start_limit_ms = 120000;  ///< from the start to the answer to hello
};

class FramedChild {
 public:
  using Progress = std::function<void(const std::string& step)>;

  explicit FramedChild(FramedChildOptions options);
  ~FramedChild();
  FramedChild(const FramedChild&) = delete;
  FramedChild& operator=(const FramedChild&) = delete;

  /// One request and its answer. Method "hello" gives the answer that the child
  /// gave when it started.
  Result<Json> Call(const std::string& method, const Json& params, int64_t limit_ms,
                    const Progress& progress = {});

  /// The first half of Call; the child must not be busy.
  void Begin(const std::string& method, const Json& params, int64_t limit_ms,
             const Progress& progress = {});
  bool busy() const;  ///< between Begin() and Take()
  bool done() const;  ///< Take() has a result
  Result<Json> Take();
  void Discard();  ///< Take() of a result that nobody needs

  /// Waits until at least one of the busy children is done; idle ones are
  /// skipped. After a wish to stop all busy ones are done, as interrupted.
  static void WaitAny(std::span<FramedChild* const> children);

  /// Ends the child: closes its input, gives it `grace_ms` to leave, kills the
  /// group. The next call starts another one.
  void Stop(int64_t grace_ms = 500);

  bool running() const;
  CallOutcome outcome() const;  ///< of the last call that was taken
  std::string ErrTail() const;  ///< the last 64 KiB of its standard error
  int starts() const;           ///< children that were started so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kernelopt
