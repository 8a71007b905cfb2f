#include "proc/framed_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/cancel.h"
#include "proc/frame_server.h"

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A child in Python on the package's own framing; `body` defines handlers.
FramedChildOptions Python(const std::string& body) {
  FramedChildOptions options;
  options.name = "tester";
  options.command.argv = {"python3", "-S", "-c",
                          "import os, sys, time, signal\n"
                          "from kernelopt import framing\n"
                          "framing.take_streams()\n" +
                              body};
  options.command.environment = {{"PYTHONPATH", std::string(KERNELOPT_SOURCE_DIR) + "/python"},
                                 {"PYTHONDONTWRITEBYTECODE", "1"}};
  return options;
}

FramedChildOptions Tester() {
  return Python(R"(
def echo(params, progress):
    for step in params.get("steps", []):
        progress(step)
    return params
def count(params, progress, calls=[0]):
    calls[0] += 1
    return {"calls": calls[0], "pid": os.getpid()}
def fails(params, progress):
    raise framing.JobError("model", "forward_raises", "it raised", "m.py:12")
def sick(params, progress):
    raise framing.JobError("internal", "sick_device", "illegal access")
def hangs(params, progress):
    print("about to hang", file=sys.stderr, flush=True)
    time.sleep(100)
def leaves(params, progress):
    print("bye", file=sys.stderr, flush=True)
    os._exit(5)
def crashes(params, progress):
    os.kill(os.getpid(), signal.SIGSEGV)
def talks(params, progress):
    sys.stderr.write("x" * 1000000)
    return {}
sys.exit(framing.serve({f.__name__: f for f in
                        (echo, count, fails, sick, hangs, leaves, crashes, talks)},
                       hello=lambda params: {"version": "1"}))
)");
}

// A child in sh that writes what `script` prints, without reading first.
FramedChildOptions Shell(const std::string& script) {
  FramedChildOptions options;
  options.name = "tester";
  options.command.argv = {"sh", "-c", script};
  options.start_limit_ms = 1000;
  return options;
}

Json Empty() {
  return Json::object();
}

TEST(FramedChild, CallsProgressAndHello) {
  FramedChild child(Tester());
  EXPECT_FALSE(child.running());
  std::vector<std::string> steps;
  auto result = child.Call("echo", Json{{"steps", {"a", "b"}}, {"x", 1.5}}, 20000,
                           [&](const std::string& step) { steps.push_back(step); });
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ((*result)["x"], 1.5);
  EXPECT_THAT(steps, ElementsAre("a", "b"));
  EXPECT_EQ((*child.Call("hello", Empty(), 20000))["version"], "1");
  EXPECT_EQ(child.starts(), 1);
  EXPECT_EQ(child.outcome(), CallOutcome::kOk);
}

TEST(FramedChild, LargeRequestAndAnswer) {
  FramedChild child(Tester());
  auto result = child.Call("echo", Json{{"text", std::string(2 << 20, 'y')}}, 20000);
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ((*result)["text"].get_ref<const std::string&>().size(), 2u << 20);
}

TEST(FramedChild, ErrorsOfTheJobKeepTheChild) {
  FramedChild child(Tester());
  auto result = child.Call("fails", Empty(), 20000);
  ASSERT_FALSE(result);
  EXPECT_EQ(child.outcome(), CallOutcome::kJobError);
  EXPECT_EQ(result.error().kind, ErrorKind::kModel);
  EXPECT_EQ(result.error().code, "forward_raises");
  EXPECT_EQ(result.error().ToString(), "m.py:12: it raised");
  EXPECT_TRUE(child.running());
  EXPECT_EQ(child.Call("unknown", Empty(), 20000).error().code, "no_such_method");
  EXPECT_TRUE(child.Call("talks", Empty(), 20000));
  EXPECT_EQ(child.ErrTail().size(), 64u << 10);
  EXPECT_EQ(child.starts(), 1);
}

struct Ending {
  const char* method;
  int64_t limit_ms;
  CallOutcome outcome;
  const char* code;
  const char* said;
};

void PrintTo(const Ending& ending, std::ostream* out) {
  *out << ending.method;
}

class FramedChildEnding : public testing::TestWithParam<Ending> {};

TEST_P(FramedChildEnding, IsNamedAndTheNextCallStartsAnother) {
  const Ending& ending = GetParam();
  FramedChild child(Tester());
  const Json first = *child.Call("count", Empty(), 20000);
  const int64_t start = MonotonicMs();
  auto result = child.Call(ending.method, Empty(), ending.limit_ms);
  EXPECT_LT(MonotonicMs() - start, 20000);
  ASSERT_FALSE(result);
  EXPECT_EQ(child.outcome(), ending.outcome);
  EXPECT_EQ(result.error().code, ending.code);
  EXPECT_THAT(result.error().message, HasSubstr(ending.said));
  EXPECT_FALSE(child.running());
  const Json second = *child.Call("count", Empty(), 20000);
  EXPECT_EQ(second["calls"], 1);
  EXPECT_NE(first["pid"], second["pid"]);
  EXPECT_EQ(child.starts(), 2);
}

INSTANTIATE_TEST_SUITE_P(
    All, FramedChildEnding,
    testing::Values(Ending{"hangs", 300, CallOutcome::kTimeout, "timeout",
                           "the tester did not end 'hangs' within 0.3 s and was killed; its last "
                           "words: about to hang"},
                    Ending{"leaves", 20000, CallOutcome::kDied, "died",
                           "ended with exit code 5 during 'leaves'; its last words: bye"},
                    Ending{"crashes", 20000, CallOutcome::kDied, "died", "signal 11"},
                    Ending{"sick", 20000, CallOutcome::kSickDevice, "sick_device",
                           "illegal access"}),
    [](const auto& info) { return std::string(info.param.method); });

struct BadStart {
  const char* name;
  const char* script;
  CallOutcome outcome;
  const char* said;
};

void PrintTo(const BadStart& start, std::ostream* out) {
  *out << start.name;
}

// Frames in printf's octal; the length of {"id":1,"ok":{}} is 16 = \020.
class FramedChildBadStart : public testing::TestWithParam<BadStart> {};

TEST_P(FramedChildBadStart, IsNamed) {
  FramedChildOptions options = Shell(GetParam().script);
  // Long enough for a loaded machine where something is expected to be said.
  options.start_limit_ms = GetParam().outcome == CallOutcome::kTimeout ? 300 : 20000;
  FramedChild child(options);
  auto result = child.Call("echo", Empty(), 20000);
  ASSERT_FALSE(result);
  EXPECT_EQ(child.outcome(), GetParam().outcome) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().said));
  EXPECT_FALSE(child.running());
}

INSTANTIATE_TEST_SUITE_P(
    All, FramedChildBadStart,
    testing::Values(
        BadStart{"ExitsAtOnce", "exit 0", CallOutcome::kDied, "exit code 0 during its start"},
        BadStart{"SaysWhy", "echo no module >&2; exit 1", CallOutcome::kDied,
                 "its last words: no module"},
        BadStart{"Silent", "sleep 100", CallOutcome::kTimeout, "did not end its start"},
        BadStart{"Text", "echo Hello, this is no frame; sleep 100", CallOutcome::kProtocolError,
                 "a frame of 1819043144 bytes was announced"},
        BadStart{"NotJson", "printf '\\003\\000\\000\\000{x}'; sleep 100",
                 CallOutcome::kProtocolError, "its answer is not valid JSON"},
        BadStart{"NotAnObject", "printf '\\002\\000\\000\\000[]'; sleep 100",
                 CallOutcome::kProtocolError, "its answer is not a JSON object"},
        BadStart{"EmptyFrame", "printf '\\000\\000\\000\\000'; sleep 100",
                 CallOutcome::kProtocolError, "not valid JSON"},
        BadStart{"OtherId", "printf '\\020\\000\\000\\000{\"id\":9,\"ok\":{}}'; sleep 100",
                 CallOutcome::kProtocolError, "id 1"},
        BadStart{"NoVersion", "printf '\\020\\000\\000\\000{\"id\":1,\"ok\":{}}'; sleep 100",
                 CallOutcome::kProtocolError, "protocol none where 1 is wanted"},
        BadStart{"OkIsNoObject", "printf '\\017\\000\\000\\000{\"id\":1,\"ok\":1}'; sleep 100",
                 CallOutcome::kProtocolError, "not a JSON object"},
        BadStart{"Nothing", "printf '\\010\\000\\000\\000{\"id\":1}'; sleep 100",
                 CallOutcome::kProtocolError, "none of ok, error and progress"},
        BadStart{"BadError", "printf '\\022\\000\\000\\000{\"id\":1,\"error\":1}'; sleep 100",
                 CallOutcome::kProtocolError, "no known kind"},
        BadStart{"HalfAFrame", "printf '\\020\\000\\000\\000{\"id\"'; sleep 100",
                 CallOutcome::kTimeout, "did not end its start"},
        BadStart{"HalfAFrameAndExit", "printf '\\020\\000\\000\\000{\"id\"'; exit 4",
                 CallOutcome::kDied, "exit code 4"},
        BadStart{"ClosesItsOutput", "exec >&-; sleep 100", CallOutcome::kProtocolError,
                 "closed its standard output"},
        BadStart{"NoProgram", "exec /no/such/program", CallOutcome::kDied, "exit code 127"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(FramedChild, ClosedInputIsNamed) {
  FramedChild child(Shell("exec <&-; sleep 100"));
  auto result = child.Call("echo", Json{{"text", std::string(1 << 20, 'x')}}, 20000);
  // hello fits into the pipe before it is closed, so that either is seen first.
  ASSERT_FALSE(result);
  EXPECT_TRUE(child.outcome() == CallOutcome::kProtocolError ||
              child.outcome() == CallOutcome::kTimeout)
      << result.error().message;
}

TEST(FramedChild, MissingProgramIsNotStarted) {
  FramedChildOptions options;
  options.command.argv = {"kernelopt-no-such-program"};
  FramedChild child(options);
  EXPECT_EQ(child.Call("echo", Empty(), 1000).error().code, "no_such_program");
  EXPECT_EQ(child.outcome(), CallOutcome::kNotStarted);
}

TEST(FramedChild, ChildThatEndedWhileIdleIsReplaced) {
  FramedChild child(Tester());
  const Json first = *child.Call("count", Empty(), 20000);
  kill(first["pid"].get<pid_t>(), SIGKILL);
  usleep(200000);
  EXPECT_TRUE(child.Call("count", Empty(), 20000));
  EXPECT_EQ(child.starts(), 2);
}

TEST(FramedChild, SeveralAtOnce) {
  FramedChild slow(Tester()), fast(Tester()), idle(Tester());
  slow.Begin("hangs", Empty(), 3000);
  fast.Begin("echo", Json{{"x", 1}}, 20000);
  FramedChild* children[] = {&slow, &fast, &idle};
  FramedChild::WaitAny(children);
  EXPECT_TRUE(fast.done());
  EXPECT_FALSE(slow.done());
  EXPECT_TRUE(fast.Take());
  EXPECT_FALSE(fast.busy());
  FramedChild::WaitAny(children);
  ASSERT_TRUE(slow.done());
  EXPECT_EQ(slow.Take().error().code, "timeout");
  FramedChild::WaitAny(children);  // none is busy: no wait
}

TEST(FramedChild, CancelKillsTheCallInFlight) {
  FramedChild child(Tester());
  ASSERT_TRUE(child.Call("count", Empty(), 20000));
  std::thread later([] {
    usleep(100000);
    RequestCancel();
  });
  auto result = child.Call("hangs", Empty(), 60000);
  later.join();
  EXPECT_EQ(result.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(child.outcome(), CallOutcome::kInterrupted);
  EXPECT_FALSE(child.running());
  EXPECT_EQ(child.Call("count", Empty(), 20000).error().code, "interrupted");
  EXPECT_EQ(child.starts(), 1);
  ResetCancel();
  EXPECT_TRUE(child.Call("count", Empty(), 20000));
}

TEST(FramedChild, StopLetsTheChildLeaveAndTheNextCallStartAnother) {
  FramedChild child(Tester());
  ASSERT_TRUE(child.Call("count", Empty(), 20000));
  const int64_t start = MonotonicMs();
  child.Stop(20000);
  EXPECT_LT(MonotonicMs() - start, 19000);  // it left by itself when its input ended
  EXPECT_FALSE(child.running());
  EXPECT_TRUE(child.Call("count", Empty(), 20000));
}

// ---- The child's side in C++, against the client: this program is its own child.

TEST(DISABLED_Server, Serves) {
  // gtest has written to standard output, which the test made standard error; the
  // frames' descriptor is 3 until here.
  dup2(3, 1);
  std::exit(ServeStandardStreams(
      Json{{"version", "2"}}, [](const std::string& method, const Json& params) -> Result<Json> {
        if (method == "echo") {
          printf("noise on standard output\n");
          fflush(stdout);
          return params;
        }
        if (method == "fails") {
          return Fail(ErrorKind::kEnvironment, "out_of_memory", "no memory", "here");
        }
        if (method == "throws") throw std::runtime_error("thrown");
        return UnknownMethod(method);
      }));
}

TEST(FrameServer, AnswersTheClient) {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  ASSERT_GT(n, 0);
  FramedChildOptions options;
  options.name = "server";
  options.command.argv = {
      "sh", "-c",
      "exec \"$0\" --gtest_filter=DISABLED_Server.* --gtest_also_run_disabled_tests "
      "3>&1 1>&2",
      std::string(self, static_cast<size_t>(n))};
  FramedChild child(options);
  auto result = child.Call("echo", Json{{"x", {1, 2}}}, 20000);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ((*result)["x"], Json({1, 2}));
  EXPECT_EQ((*child.Call("hello", Empty(), 20000))["version"], "2");
  auto failed = child.Call("fails", Empty(), 20000);
  EXPECT_EQ(failed.error().kind, ErrorKind::kEnvironment);
  EXPECT_EQ(failed.error().ToString(), "here: no memory");
  EXPECT_THAT(child.Call("throws", Empty(), 20000).error().message, HasSubstr("thrown"));
  EXPECT_EQ(child.Call("unknown", Empty(), 20000).error().code, "no_such_method");
  EXPECT_EQ(child.starts(), 1);
  EXPECT_THAT(child.ErrTail(), HasSubstr("noise on standard output"));
}

}  // namespace
}  // namespace kernelopt
