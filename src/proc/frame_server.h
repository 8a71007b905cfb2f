// The child's side of docs/protocol.md: answers requests until its input ends.
//
//   return ServeStandardStreams({{"version", "0.1.0"}}, [&](auto& method, auto& params) {
//     if (method == "facts") return Facts();
//     return UnknownMethod(method);
//   });
//
// Standard output belongs to the frames alone: descriptor 1 is made a copy of
// standard error before the first request, so that no library can write between
// them, and descriptor 0 becomes empty.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace kernelopt {

using FrameHandler = std::function<Result<Json>(const std::string& method, const Json& params)>;

/// Gives the exit code: 0 at the end of the input, 1 when the input can't be
/// read as frames or the answers can't be written. `hello` is an object: what the
/// first answer holds beside "protocol".
int ServeStandardStreams(const Json& hello, const FrameHandler& handler);

/// The same on two descriptors, which stay open.
int ServeFrames(int in, int out, const Json& hello, const FrameHandler& handler);

/// The error of a method that the child does not have.
std::unexpected<Error> UnknownMethod(const std::string& method);

/// {"kind", "code", "message", "where"}
Json ErrorToJson(const Error& error);

}  // namespace kernelopt
