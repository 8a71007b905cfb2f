#include "proc/frame_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "proc/frame.h"
#include "proc/framed_child.h"
#include "proc/process.h"

namespace kernelopt {
namespace {

// Foreign code below a handler may throw; that ends the request, not the child.
Result<Json> Handle(const FrameHandler& handler, const std::string& method, const Json& params) {
  try {
    return handler(method, params);
  } catch (const std::bad_alloc&) {
    return Fail(ErrorKind::kEnvironment, "out_of_memory",
                "the job needs more host memory than there is");
  } catch (const std::exception& e) {
    return Fail(ErrorKind::kInternal, "exception", fmt::format("'{}' threw: {}", method, e.what()));
  }
}

bool Write(int out, const Json& answer) {
  auto frame = EncodeFrame(DumpJson(answer));
  if (!frame) {
    frame =
        EncodeFrame(DumpJson(Json{{"id", answer.at("id")}, {"error", ErrorToJson(frame.error())}}));
  }
  std::string_view rest = *frame;
  while (!rest.empty()) {
    if (!WriteAvailable(out, rest)) return false;
  }
  return true;
}

int Unreadable(const std::string& why) {
  fmt::print(stderr, "request can't be read: {}\n", why);
  return 1;
}

}  // namespace

Json ErrorToJson(const Error& error) {
  return Json{{"kind", KindName(error.kind)},
              {"code", error.code},
              {"message", error.message},
              {"where", error.where}};
}

std::unexpected<Error> UnknownMethod(const std::string& method) {
  return Fail(ErrorKind::kInternal, "no_such_method",
              fmt::format("there is no method '{}'", method));
}

int ServeFrames(int in, int out, const Json& hello, const FrameHandler& handler) {
  FrameReader reader;
  while (true) {
    char buffer[1 << 16];
    const ssize_t n = read(in, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unreadable(std::generic_category().message(errno));
    if (n == 0) return reader.pending() == 0 ? 0 : Unreadable("the input ended inside a frame");
    reader.Append({buffer, static_cast<size_t>(n)});
    while (true) {
      auto frame = reader.Next();
      if (!frame) return Unreadable(frame.error().message);
      if (!*frame) break;
      auto request = ParseJson(**frame, "the request");
      if (!request) return Unreadable(request.error().message);
      auto method = GetString(*request, "method", "the request");
      auto id = GetInt(*request, "id", "the request");
      if (!method) return Unreadable(method.error().message);
      if (!id) return Unreadable(id.error().message);
      const auto found = request->find("params");
      const Json params = found == request->end() ? Json::object() : *found;
      Json answer{{"id", *id}};
      if (*method == "hello") {
        answer["ok"] = hello;
        answer["ok"]["protocol"] = kProtocolVersion;
      } else if (auto result = Handle(handler, *method, params)) {
        answer["ok"] = std::move(*result);
      } else {
        answer["error"] = ErrorToJson(result.error());
      }
      if (!Write(out, answer)) return 1;
    }
  }
}

int ServeStandardStreams(const Json& hello, const FrameHandler& handler) {
  std::fflush(stdout);
  UniqueFd in(fcntl(0, F_DUPFD_CLOEXEC, 3));
  UniqueFd out(fcntl(1, F_DUPFD_CLOEXEC, 3));
  UniqueFd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.valid() || !out.valid() || !empty.valid() || dup2(empty.get(), 0) < 0 || dup2(2, 1) < 0) {
    return Unreadable("the standard streams can't be moved");
  }
  return ServeFrames(in.get(), out.get(), hello, handler);
}

}  // namespace kernelopt
