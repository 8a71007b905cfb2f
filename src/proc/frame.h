// Frames of docs/protocol.md: a 4-byte little-endian length and that many bytes.
//
//   FrameReader reader;
//   reader.Append(bytes_from_the_pipe);
//   while (auto frame = KOPT_TRY(reader.Next())) Use(*frame);
//
// This level knows no JSON. The reader allocates for bytes that came, never for
// a length that was only announced.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kernelopt {

inline constexpr size_t kMaxFrameBytes = size_t{256} << 20;

/// Length and body. Error: kInternal "frame_too_long".
Result<std::string> EncodeFrame(std::string_view body);

class FrameReader {
 public:
  void Append(std::string_view bytes) { buffer_.append(bytes); }

  /// The next whole body, or nothing yet. Error: kInternal "protocol_error" when
  /// a longer frame than kMaxFrameBytes is announced; the stream is useless then.
  Result<std::optional<std::string>> Next();

  /// Bytes of a frame that is not whole yet.
  size_t pending() const { return buffer_.size() - taken_; }

  void Clear() {
    buffer_.clear();
    taken_ = 0;
  }

 private:
  std::string buffer_;
  size_t taken_ = 0;  ///< bytes at its begin that were handed out
};

}  // namespace kernelopt
