// The last bytes of a stream: what a child said on its standard error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kernelopt {

class TailBuffer {
 public:
  explicit TailBuffer(size_t capacity = 64 << 10) : capacity_(capacity) {}

  void Append(std::string_view bytes) {
    if (bytes.size() >= capacity_) {
      text_.assign(bytes.substr(bytes.size() - capacity_));
      return;
    }
    text_.append(bytes);
    // Cut rarely, so that appending stays linear.
    if (text_.size() > 2 * capacity_) text_.erase(0, text_.size() - capacity_);
  }

  std::string Text() const {
    return text_.size() > capacity_ ? text_.substr(text_.size() - capacity_) : text_;
  }

  /// The last line that is not blank, shortened to `limit` bytes; for messages.
  std::string LastLine(size_t limit = 200) const;

  void Clear() { text_.clear(); }

 private:
  size_t capacity_;
  std::string text_;
};

}  // namespace kernelopt
