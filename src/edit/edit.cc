#include "edit/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace kernelopt {
namespace {

std::string Describe(const Edit& edit) {
  return fmt::format("bytes {} to {} -> '{}'", edit.span.begin, edit.span.end,
                     edit.text.substr(0, 40));
}

bool Meet(const Edit& first, const Edit& second) {
  if (first.span.end > second.span.begin) return true;
  return first.span == second.span && first.span.size() == 0;
}

}  // namespace

Result<std::string> ApplyEdits(std::string_view text, std::vector<Edit> edits) {
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return std::tie(a.span.begin, a.span.end) < std::tie(b.span.begin, b.span.end);
  });
  std::string out;
  size_t done = 0;
  for (size_t i = 0; i < edits.size(); ++i) {
    const Edit& edit = edits[i];
    if (edit.span.begin > edit.span.end || edit.span.end > text.size()) {
      return Fail(
          ErrorKind::kInternal, "edit_outside",
          fmt::format("the edit {} lies outside a text of {} bytes", Describe(edit), text.size()));
    }
    if (i > 0 && Meet(edits[i - 1], edit)) {
      return Fail(ErrorKind::kInternal, "edit_overlap",
                  fmt::format("two edits meet: {} and {}", Describe(edits[i - 1]), Describe(edit)));
    }
    out += text.substr(done, edit.span.begin - done);
    out += edit.text;
    done = edit.span.end;
  }
  out += text.substr(done);
  return out;
}

}  // namespace kernelopt
