#include "proc/framed_child.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/cancel.h"
#include "proc/frame.h"
#include "proc/tail_buffer.h"

namespace kernelopt {
namespace {

std::optional<ErrorKind> KindFromName(const std::string& name) {
  if (name == "internal") return ErrorKind::kInternal;
  if (name == "usage") return ErrorKind::kUsage;
  if (name == "environment") return ErrorKind::kEnvironment;
  if (name == "model") return ErrorKind::kModel;
  if (name == "interrupted") return ErrorKind::kInterrupted;
  return std::nullopt;
}

std::string Text(const Json& object, const char* key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// A child that is about to be reported as closed has often just ended; its exit
// code says more than the closed pipe.
constexpr int64_t kLastWordsMs = 300;

}  // namespace

struct FramedChild::State {
  enum class Phase { kIdle, kHello, kCall, kDone };

  FramedChildOptions options;
  Process process;
  FrameReader reader;
  TailBuffer err;
  bool spoke = false;          // on standard error, since the call began
  std::string output;          // frames on their way to the child
  std::string_view unwritten;  // the rest of `output`
  Json hello;
  int64_t next_id = 1;
  int starts = 0;

  Phase phase = Phase::kIdle;
  int64_t id = 0;  // of the request whose answer is awaited
  int64_t deadline = 0;
  std::string method;
  Json params;
  int64_t limit_ms = 0;
  Progress progress;
  Result<Json> result = Json();
  CallOutcome outcome = CallOutcome::kOk;

  bool waiting() const { return phase == Phase::kHello || phase == Phase::kCall; }

  void Finish(CallOutcome how, Result<Json> what) {
    outcome = how;
    result = std::move(what);
    phase = Phase::kDone;
    params = Json();
    progress = {};
  }

  void Drop() {
    process.End();
    reader.Clear();
    output.clear();
    unwritten = {};
  }

  void FailWith(CallOutcome how, std::string_view code, std::string message) {
    Drop();
    Finish(how, Fail(ErrorKind::kInternal, code, std::move(message)));
  }

  std::string During() const {
    return phase == Phase::kHello ? std::string("its start") : fmt::format("'{}'", method);
  }

  std::string LastWords() const {
    const std::string line = spoke ? err.LastLine() : "";
    return line.empty() ? "" : fmt::format("; its last words: {}", line);
  }

  void ProtocolError(std::string_view what) {
    FailWith(CallOutcome::kProtocolError, "protocol_error",
             fmt::format("the {} was ended because during {} {}{}", options.name, During(), what,
                         LastWords()));
  }

  void Died(const ExitStatus& status) {
    DrainErr();
    FailWith(CallOutcome::kDied, "died",
             fmt::format("the {} ended with {} during {}{}", options.name, status.ToString(),
                         During(), LastWords()));
  }

  void Send(const std::string& name, const Json& what) {
    id = next_id++;
    Json request = {{"id", id}, {"method", name}, {"params", what}};
    auto frame = EncodeFrame(DumpJson(request));
    if (!frame) {
      // Nothing was sent, so the child stays as it is.
      Finish(CallOutcome::kJobError, std::unexpected(frame.error()));
      return;
    }
    output = std::move(*frame);
    unwritten = output;
    WriteAvailable(process.in().get(), unwritten);  // Step() meets a closed input again
  }

  void StartCall() {
    phase = Phase::kCall;
    if (method == "hello") {
      Finish(CallOutcome::kOk, hello);
      return;
    }
    deadline = MonotonicMs() + limit_ms;
    Send(method, params);
  }

  void Begin() {
    DrainErr();
    spoke = false;
    // A child that ended while idle is replaced before it can fail a call.
    if (process.running() && process.Wait(0)) Drop();
    if (process.running()) {
      StartCall();
      return;
    }
    Drop();
    err.Clear();
    auto started = Process::Start(options.command);
    if (!started) {
      Finish(CallOutcome::kNotStarted, std::unexpected(started.error()));
      return;
    }
    process = std::move(*started);
    ++starts;
    phase = Phase::kHello;
    deadline = MonotonicMs() + options.start_limit_ms;
    Send("hello", Json::object());
  }

  void DrainErr() {
    if (!process.err().valid()) return;
    std::string bytes;
    const bool open = ReadAvailable(process.err().get(), bytes);
    err.Append(bytes);
    spoke |= !bytes.empty();
    if (!open) process.err().Close();
  }

  void Write() {
    if (unwritten.empty() || WriteAvailable(process.in().get(), unwritten)) return;
    if (auto status = process.Wait(kLastWordsMs)) {
      Died(*status);
    } else {
      ProtocolError("it closed its standard input");
    }
  }

  // Gives false at the end of the child's standard output.
  bool Read() {
    if (!process.out().valid()) return false;
    std::string bytes;
    const bool open = ReadAvailable(process.out().get(), bytes);
    reader.Append(bytes);
    while (waiting()) {
      auto frame = reader.Next();
      if (!frame) {
        ProtocolError(frame.error().message);
        break;
      }
      if (!*frame) break;
      Handle(**frame);
    }
    return open;
  }

  void Handle(const std::string& text) {
    auto answer = ParseJson(text, "its answer");
    if (!answer) return ProtocolError(answer.error().message);
    if (!answer->is_object()) return ProtocolError("its answer is not a JSON object");
    auto number = answer->find("id");
    if (number == answer->end() || !number->is_number_integer() || number->get<int64_t>() != id) {
      return ProtocolError(fmt::format("its answer has not the id {} of the request", id));
    }
    if (auto ok = answer->find("ok"); ok != answer->end()) {
      if (!ok->is_object()) return ProtocolError("its answer is not a JSON object");
      return Answered(std::move(*ok));
    }
    if (auto error = answer->find("error"); error != answer->end()) return JobError(*error);
    if (auto step = answer->find("progress"); step != answer->end() && step->is_string()) {
      if (progress) progress(step->get<std::string>());
      return;
    }
    ProtocolError("its answer holds none of ok, error and progress");
  }

  void Answered(Json ok) {
    if (!unwritten.empty()) return ProtocolError("it answered before it had read the request");
    if (phase == Phase::kCall) return Finish(CallOutcome::kOk, std::move(ok));
    auto version = ok.find("protocol");
    if (version == ok.end() || !version->is_number_integer() ||
        version->get<int64_t>() != kProtocolVersion) {
      return ProtocolError(
          fmt::format("it speaks protocol {} where {} is wanted; install the "
                      "program and its Python package from one release",
                      version == ok.end() ? "none" : DumpJson(*version), kProtocolVersion));
    }
    hello = std::move(ok);
    StartCall();
  }

  void JobError(const Json& error) {
    const auto kind = error.is_object() ? KindFromName(Text(error, "kind")) : std::nullopt;
    if (!kind || Text(error, "code").empty()) {
      return ProtocolError("its error has no known kind or no code");
    }
    Error found{*kind, Text(error, "code"), Text(error, "message"), Text(error, "where")};
    const bool sick = found.code == "sick_device";
    // A child that refused hello is of no use for another call.
    if (sick || phase == Phase::kHello) Drop();
    Finish(sick ? CallOutcome::kSickDevice : CallOutcome::kJobError,
           std::unexpected(std::move(found)));
  }

  void AddPolls(std::vector<pollfd>& entries) {
    entries.push_back({process.pidfd(), POLLIN, 0});
    entries.push_back({process.out().get(), POLLIN, 0});
    entries.push_back({process.err().get(), POLLIN, 0});
    if (!unwritten.empty()) entries.push_back({process.in().get(), POLLOUT, 0});
  }

  // Looks at everything that may have happened, in the order that keeps the best
  // explanation: an answer, then an end, then a closed stream, then the clock.
  void Step() {
    DrainErr();
    const bool open = Read();
    if (!waiting()) return;
    Write();
    if (!waiting()) return;
    if (auto status = process.Wait(open ? 0 : kLastWordsMs)) {
      // What it wrote just before its end still counts. The process is reaped, so
      // that only the pipe is left to read.
      if (Read(); waiting()) Died(*status);
      return;
    }
    if (!open) return ProtocolError("it closed its standard output");
    if (MonotonicMs() >= deadline) {
      FailWith(CallOutcome::kTimeout, "timeout",
               fmt::format(
                   "the {} did not end {} within {:.1f} s and was killed{}", options.name, During(),
                   static_cast<double>(phase == Phase::kHello ? options.start_limit_ms : limit_ms) /
                       1000,
                   LastWords()));
    }
  }
};

FramedChild::FramedChild(FramedChildOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
}

FramedChild::~FramedChild() {
  Stop();
}

void FramedChild::Begin(const std::string& method, const Json& params, int64_t limit_ms,
                        const Progress& progress) {
  assert(!busy());
  state_->method = method;
  state_->params = params;
  state_->limit_ms = limit_ms;
  state_->progress = progress;
  state_->Begin();
}

bool FramedChild::busy() const {
  return state_->phase != State::Phase::kIdle;
}
bool FramedChild::done() const {
  return state_->phase == State::Phase::kDone;
}

Result<Json> FramedChild::Take() {
  assert(done());
  state_->phase = State::Phase::kIdle;
  return std::exchange(state_->result, Json());
}

void FramedChild::Discard() {
  assert(done());
  state_->phase = State::Phase::kIdle;
  state_->result = Json();
}

void FramedChild::WaitAny(std::span<FramedChild* const> children) {
  std::vector<pollfd> entries;
  while (true) {
    entries.assign(1, {CancelFd(), POLLIN, 0});
    int64_t wait = -1;
    bool any_done = false, any_waiting = false;
    for (FramedChild* child : children) {
      State& state = *child->state_;
      any_done |= state.phase == State::Phase::kDone;
      if (!state.waiting()) continue;
      any_waiting = true;
      if (CancelRequested()) {
        state.Drop();
        state.Finish(CallOutcome::kInterrupted, std::unexpected(Interrupted()));
        any_done = true;
        continue;
      }
      state.AddPolls(entries);
      int64_t left = std::max<int64_t>(0, state.deadline - MonotonicMs());
      if (state.process.pidfd() < 0) left = std::min<int64_t>(left, Process::kSliceMs);
      wait = wait < 0 ? left : std::min(wait, left);
    }
    if (any_done || !any_waiting) return;
    PollUntil(entries.data(), entries.size(), wait);
    for (FramedChild* child : children) {
      if (child->state_->waiting()) child->state_->Step();
    }
  }
}

Result<Json> FramedChild::Call(const std::string& method, const Json& params, int64_t limit_ms,
                               const Progress& progress) {
  if (CancelRequested()) {
    state_->outcome = CallOutcome::kInterrupted;
    return std::unexpected(Interrupted());
  }
  Begin(method, params, limit_ms, progress);
  FramedChild* self = this;
  while (!done()) WaitAny(std::span(&self, 1));
  return Take();
}

void FramedChild::Stop(int64_t grace_ms) {
  State& state = *state_;
  if (state.process.running()) {
    state.process.in().Close();
    const int64_t deadline = MonotonicMs() + grace_ms;
    // Its streams are read meanwhile, so that a full pipe does not hold it.
    while (MonotonicMs() < deadline && !state.process.Wait(Process::kSliceMs)) state.DrainErr();
    state.DrainErr();
  }
  state.Drop();
  state.phase = State::Phase::kIdle;
}

bool FramedChild::running() const {
  return state_->process.running();
}
CallOutcome FramedChild::outcome() const {
  return state_->outcome;
}
std::string FramedChild::ErrTail() const {
  return state_->err.Text();
}
int FramedChild::starts() const {
  return state_->starts;
}

}  // namespace kernelopt
