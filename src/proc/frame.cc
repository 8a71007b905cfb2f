#include "proc/frame.h"

#include <fmt/format.h>

#include <cstdint>

namespace kernelopt {
namespace {

constexpr size_t kHeadBytes = 4;

}  // namespace

Result<std::string> EncodeFrame(std::string_view body) {
  if (body.size() > kMaxFrameBytes) {
    return Fail(ErrorKind::kInternal, "frame_too_long",
                fmt::format("a message of {} bytes is over the {} that a frame can hold",
                            body.size(), kMaxFrameBytes));
  }
  std::string frame;
  frame.reserve(kHeadBytes + body.size());
  for (size_t i = 0; i < kHeadBytes; ++i) {
    frame.push_back(static_cast<char>((body.size() >> (8 * i)) & 0xff));
  }
  frame.append(body);
  return frame;
}

Result<std::optional<std::string>> FrameReader::Next() {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  if (rest.size() < kHeadBytes) return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < kHeadBytes; ++i) {
    length |= static_cast<size_t>(static_cast<uint8_t>(rest[i])) << (8 * i);
  }
  if (length > kMaxFrameBytes) {
    return Fail(ErrorKind::kInternal, "protocol_error",
                fmt::format("a frame of {} bytes was announced where at most {} are allowed",
                            length, kMaxFrameBytes));
  }
  if (rest.size() - kHeadBytes < length) return std::nullopt;
  std::string body(rest.substr(kHeadBytes, length));
  taken_ += kHeadBytes + length;
  // Moved to the front once the larger part is used up, so that many small
  // frames in one buffer cost linear time.
  if (taken_ >= buffer_.size() - taken_) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  return body;
}

}  // namespace kernelopt
