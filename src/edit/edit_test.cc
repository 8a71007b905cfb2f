#include "edit/edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace kernelopt {
namespace {

using testing::HasSubstr;

TEST(ApplyEditsTest, ReplacesInsertsAndRemovesInAnyOrder) {
  EXPECT_EQ(
      *ApplyEdits("0123456789", {{{8, 9}, "eight"}, {{2, 4}, ""}, {{0, 0}, "<"}, {{10, 10}, ">"}}),
      "<014567eight9>");
  EXPECT_EQ(*ApplyEdits("abc", {}), "abc");
  EXPECT_EQ(*ApplyEdits("abc", {{{1, 2}, "B"}, {{1, 1}, "("}, {{2, 2}, ")"}}), "a(B)c");
}

TEST(ApplyEditsTest, NamesBothEditsThatMeet) {
  const auto out = ApplyEdits("0123456789", {{{2, 5}, "first"}, {{4, 6}, "second"}});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, "edit_overlap");
  EXPECT_THAT(out.error().message, HasSubstr("bytes 2 to 5 -> 'first'"));
  EXPECT_THAT(out.error().message, HasSubstr("bytes 4 to 6 -> 'second'"));
  EXPECT_EQ(ApplyEdits("abc", {{{1, 1}, "x"}, {{1, 1}, "y"}}).error().code, "edit_overlap");
}

TEST(ApplyEditsTest, RefusesEditsOutside) {
  EXPECT_EQ(ApplyEdits("abc", {{{2, 4}, "x"}}).error().code, "edit_outside");
  EXPECT_EQ(ApplyEdits("abc", {{{2, 1}, "x"}}).error().code, "edit_outside");
}

TEST(UnifiedDiffTest, ShowsHunksWithContext) {
  EXPECT_EQ(UnifiedDiff("a\n", "a\n", "x", "y"), "");
  EXPECT_EQ(UnifiedDiff("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nfive\n6\n7\n8\n", "x", "y"),
            "--- x\n+++ y\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
  EXPECT_EQ(UnifiedDiff("", "a", "x", "y"),
            "--- x\n+++ y\n@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n");
}

// Applies the hunks of a diff to the old text, as patch does.
std::string Patched(const std::string& old_text, const std::string& diff) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < old_text.size();) {
    const size_t end = std::min(old_text.find('\n', at), old_text.size() - 1) + 1;
    lines.push_back(old_text.substr(at, end - at));
    at = end;
  }
  std::string out;
  size_t next = 0;  // index into lines
  for (size_t at = 0; at < diff.size();) {
    const size_t end = std::min(diff.find('\n', at), diff.size() - 1) + 1;
    const std::string line = diff.substr(at, end - at);
    at = end;
    size_t old_line = 0, old_count = 0;
    if (line.starts_with("---") || line.starts_with("+++") || line.starts_with("\\")) continue;
    if (std::sscanf(line.c_str(), "@@ -%zu,%zu", &old_line, &old_count) == 2) {
      const size_t begin = old_line - (old_count > 0);
      while (next < begin) out += lines[next++];
    } else if (line[0] == '+') {
      out += line.substr(1);
    } else {
      EXPECT_EQ(line.substr(1), lines[next]);
      if (line[0] == ' ') out += lines[next];
      ++next;
    }
  }
  while (next < lines.size()) out += lines[next++];
  return out;
}

RC_GTEST_PROP(UnifiedDiffTest, TurnsTheOldTextIntoTheNew,
              (const std::vector<uint8_t>& from, const std::vector<uint8_t>& to)) {
  const auto text = [](const std::vector<uint8_t>& numbers) {
    std::string out;
    for (uint8_t n : numbers) out += std::string(1, static_cast<char>('a' + n % 4)) + "\n";
    return out;
  };
  RC_ASSERT(Patched(text(from), UnifiedDiff(text(from), text(to), "x", "y")) == text(to));
}

RC_GTEST_PROP(ApplyEditsTest, DisjointEditsKeepEverythingElse, (const std::string& a)) {
  const std::string text = "<" + a + ">";
  const auto out = ApplyEdits(text, {{{text.size() - 1, text.size()}, "]"}, {{0, 1}, "["}});
  RC_ASSERT(out && *out == "[" + a + "]");
}

}  // namespace
}  // namespace kernelopt
