#include "proc/tail_buffer.h"

namespace kernelopt {

std::string TailBuffer::LastLine(size_t limit) const {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t end = text_.find_last_not_of(kBlank);
  if (end == std::string::npos) return "";
  const size_t newline = text_.find_last_of("\r\n", end);
  const size_t begin =
      text_.find_first_not_of(kBlank, newline == std::string::npos ? 0 : newline + 1);
  std::string line = text_.substr(begin, end + 1 - begin);
  if (line.size() > limit) line = line.substr(0, limit) + "...";
  return line;
}

}  // namespace kernelopt
