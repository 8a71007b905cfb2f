#include "proc/frame.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <vector>

namespace kernelopt {
namespace {

// What a reader makes of a stream that comes in pieces of the given size.
std::vector<std::string> ReadAll(std::string_view stream, size_t piece, bool* failed = nullptr) {
  FrameReader reader;
  std::vector<std::string> bodies;
  while (!stream.empty()) {
    reader.Append(stream.substr(0, piece));
    stream.remove_prefix(std::min(piece, stream.size()));
    while (true) {
      auto body = reader.Next();
      if (!body) {
        if (failed != nullptr) *failed = true;
        return bodies;
      }
      if (!*body) break;
      bodies.push_back(**body);
    }
  }
  return bodies;
}

RC_GTEST_PROP(Frame, RoundTripInAnyPieces, (std::vector<std::string> bodies)) {
  std::string stream;
  for (const std::string& body : bodies) stream += *EncodeFrame(body);
  const size_t piece = *rc::gen::inRange<size_t>(1, 50);
  RC_ASSERT(ReadAll(stream, piece) == bodies);
}

TEST(Frame, LengthIsLittleEndian) {
  EXPECT_EQ(*EncodeFrame(std::string(258, 'x')),
            std::string("\x02\x01\x00\x00", 4) + std::string(258, 'x'));
  EXPECT_EQ(*EncodeFrame(""), std::string(4, '\0'));
}

TEST(Frame, HalfAFrameIsNotHandedOut) {
  FrameReader reader;
  const std::string frame = *EncodeFrame("abc");
  for (char c : frame.substr(0, frame.size() - 1)) {
    reader.Append({&c, 1});
    EXPECT_FALSE(reader.Next()->has_value());
  }
  EXPECT_EQ(reader.pending(), frame.size() - 1);
  reader.Append("c");
  EXPECT_EQ(**reader.Next(), "abc");
  EXPECT_EQ(reader.pending(), 0u);
}

TEST(Frame, TooLongIsRefusedBeforeItsBytesCome) {
  FrameReader reader;
  reader.Append(std::string("\x01\x00\x00\x10", 4));  // 256 MiB + 1
  auto body = reader.Next();
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().code, "protocol_error");
  reader.Clear();
  reader.Append(std::string("\x00\x00\x00\x10", 4));  // 256 MiB: allowed, not there yet
  EXPECT_FALSE(reader.Next()->has_value());
}

// The fuzz target's property on random bytes: no crash, nothing handed out that
// did not come in, and the cutting into pieces changes nothing.
TEST(Frame, RandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    std::string stream;
    while (stream.size() < 200) {
      const size_t length = random() % 20;
      if (random() % 8 != 0) stream += std::string{static_cast<char>(length), 0, 0, 0};
      for (size_t i = 0; i < length; ++i) stream += static_cast<char>(random());
    }
    bool whole_failed = false, cut_failed = false;
    const auto whole = ReadAll(stream, stream.size(), &whole_failed);
    const auto cut = ReadAll(stream, 1 + random() % 7, &cut_failed);
    EXPECT_EQ(whole, cut);
    EXPECT_EQ(whole_failed, cut_failed);
    size_t bytes = 0;
    for (const auto& body : whole) bytes += 4 + body.size();
    EXPECT_LE(bytes, stream.size());
  }
}

}  // namespace
}  // namespace kernelopt
