#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "edit/edit.h"

namespace kernelopt {
namespace {

constexpr size_t kContext = 3;
// Beyond this many cells the differing middle is shown as replaced whole.
constexpr size_t kMaxCells = 4u << 20;

struct Line {
  char mark;  // ' ', '-' or '+'
  std::string_view text;
};

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// The longest common subsequence of a[0..n) and b[0..m), by the plain table:
// kernels differ in tens of lines.
void AppendMiddle(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b,
                  std::vector<Line>& out) {
  const size_t n = a.size(), m = b.size();
  if (n * m > kMaxCells) {
    for (auto line : a) out.push_back({'-', line});
    for (auto line : b) out.push_back({'+', line});
    return;
  }
  std::vector<std::vector<uint32_t>> common(n + 1, std::vector<uint32_t>(m + 1, 0));
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[i] == b[j]) {
      out.push_back({' ', a[i]});
      ++i, ++j;
    } else if (j == m || (i < n && common[i + 1][j] >= common[i][j + 1])) {
      out.push_back({'-', a[i++]});
    } else {
      out.push_back({'+', b[j++]});
    }
  }
}

std::vector<Line> DiffLines(std::string_view old_text, std::string_view new_text) {
  auto a = SplitLines(old_text), b = SplitLines(new_text);
  std::vector<Line> lines;
  size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) {
    lines.push_back({' ', a[head++]});
  }
  size_t tail = 0;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  const std::vector<std::string_view> rest(a.end() - static_cast<ptrdiff_t>(tail), a.end());
  a = {a.begin() + static_cast<ptrdiff_t>(head), a.end() - static_cast<ptrdiff_t>(tail)};
  b = {b.begin() + static_cast<ptrdiff_t>(head), b.end() - static_cast<ptrdiff_t>(tail)};
  AppendMiddle(a, b, lines);
  for (auto line : rest) lines.push_back({' ', line});
  return lines;
}

}  // namespace

std::string UnifiedDiff(std::string_view old_text, std::string_view new_text,
                        std::string_view old_name, std::string_view new_name) {
  if (old_text == new_text) return {};
  const std::vector<Line> lines = DiffLines(old_text, new_text);
  std::string out = fmt::format("--- {}\n+++ {}\n", old_name, new_name);
  size_t old_line = 1, new_line = 1;  // of lines[at]
  size_t at = 0;
  while (true) {
    const auto changed = [&](size_t i) { return lines[i].mark != ' '; };
    size_t first = at;
    while (first < lines.size() && !changed(first)) ++first;
    if (first == lines.size()) return out;
    const size_t begin = std::max(at, first - std::min(first, kContext));
    size_t last = first;  // of this hunk: no gap of more than two contexts
    for (size_t i = first; i < lines.size() && i <= last + 2 * kContext + 1; ++i) {
      if (changed(i)) last = i;
    }
    const size_t end = std::min(lines.size(), last + kContext + 1);
    old_line += begin - at;
    new_line += begin - at;
    size_t old_count = 0, new_count = 0;
    std::string body;
    for (size_t i = begin; i < end; ++i) {
      old_count += lines[i].mark != '+';
      new_count += lines[i].mark != '-';
      body += lines[i].mark;
      body += lines[i].text;
      if (!lines[i].text.ends_with('\n')) body += "\n\\ No newline at end of file\n";
    }
    // A side without lines is numbered by the line before it.
    out += fmt::format("@@ -{},{} +{},{} @@\n", old_line - (old_count == 0), old_count,
                       new_line - (new_count == 0), new_count);
    out += body;
    old_line += old_count;
    new_line += new_count;
    at = end;
  }
}

}  // namespace kernelopt
