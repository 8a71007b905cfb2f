// A range of bytes in a text.
#pragma once

#include <cstddef>
#include <string_view>

namespace kernelopt {

/// Byte offsets, end exclusive.
struct Span {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
  bool Contains(const Span& other) const { return begin <= other.begin && other.end <= end; }
  std::string_view In(std::string_view text) const { return text.substr(begin, end - begin); }
  bool operator==(const Span&) const = default;
};

}  // namespace kernelopt
