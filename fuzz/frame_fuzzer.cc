// The frame reader on any bytes, cut at any places: no crash, and the cuts change
// nothing. The first byte says how long the pieces are.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "proc/frame.h"

namespace {

std::vector<std::string> ReadAll(std::string_view stream, size_t piece) {
  kernelopt::FrameReader reader;
  std::vector<std::string> bodies;
  while (!stream.empty()) {
    reader.Append(stream.substr(0, piece));
    stream.remove_prefix(std::min(piece, stream.size()));
    while (true) {
      auto body = reader.Next();
      if (!body) return bodies;
      if (!*body) break;
      bodies.push_back(**body);
    }
  }
  return bodies;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto whole = ReadAll(stream, std::max<size_t>(1, stream.size()));
  if (ReadAll(stream, 1 + data[0] % 32) != whole) std::abort();
  size_t bytes = 0;
  for (const std::string& body : whole) {
    bytes += 4 + body.size();
    auto frame = kernelopt::EncodeFrame(body);
    if (!frame || frame->size() != 4 + body.size()) std::abort();
  }
  if (bytes > stream.size()) std::abort();
  return 0;
}
