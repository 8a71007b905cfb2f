#include "inductor/literal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

namespace kernelopt {
namespace {

// The literal that `x = TEXT` binds.
Json Value(const std::string& text) {
  const auto tree = Tree::Parse("x = " + text + "\n", "m.py");
  EXPECT_TRUE(tree) << text;
  if (!tree) return nullptr;
  return ReadLiteral(tree->Root().NamedChildren()[0].NamedChildren()[0].Field("right"));
}

TEST(ReadLiteralTest, ReadsWhatInductorWrites) {
  struct Case {
    const char* python;
    const char* json;
  };
  for (const Case& c : {
           Case{"None", "null"},
           Case{"True", "true"},
           Case{"-12", "-12"},
           Case{"0x1_0", "16"},
           Case{"1e-05", "1e-05"},
           Case{"-1.5", "-1.5"},
           Case{"'a\\'b'", "\"a'b\""},
           Case{"'a' \"b\"", "\"ab\""},
           Case{"[1, (2, 3), {4}, (5,)]", "[1,[2,3],[4],[5]]"},
           Case{"set()", "[]"},
           Case{"{'b': 1, 'a': {(0,): [['tt.divisibility', 16]]}}",
                R"x({"b":1,"a":{"(0,)":[["tt.divisibility",16]]}})x"},
           Case{"DeviceProperties(type='cuda', index=0)",
                R"x("DeviceProperties(type='cuda', index=0)")x"},
           Case{"ReductionHint.INNER", "\"ReductionHint.INNER\""},
           Case{"9223372036854775808", "\"9223372036854775808\""},
           Case{"1 + 1", "\"1 + 1\""},
           Case{"-x", "\"-x\""},
           Case{"{**a}", "\"{**a}\""},
           Case{"f'{x}'", "\"f'{x}'\""},
       }) {
    EXPECT_EQ(Value(c.python).dump(), Json::parse(c.json).dump()) << c.python;
  }
}

TEST(UnescapePythonTest, UndoesEscapesAsPythonDoes) {
  struct Case {
    const char* body;
    const char* value;
  };
  for (const Case& c : {
           Case{"plain", "plain"},
           Case{R"(\'\'\')", "'''"},
           Case{R"(a\\nb\n)", "a\\nb\n"},
           Case{"a\\\nb", "ab"},
           Case{"a\\\r\nb", "ab"},
           Case{R"(\x41\101\u00e9\U0001F600)", "AA\xC3\xA9\xF0\x9F\x98\x80"},
           Case{R"(\d\8)", "\\d\\8"},
           Case{R"(\7x\0777)", "\x07x?7"},
           Case{"end\\", "end\\"},
       }) {
    const auto value = UnescapePython(c.body);
    ASSERT_TRUE(value) << c.body;
    EXPECT_EQ(*value, c.value) << c.body;
  }
  for (const char* bad : {R"(\x4)", R"(\u12)", R"(\xzz)", R"(\ud800)", R"(\U00110000)",
                          R"(\N{BULLET})", R"(\x-1)", R"(\u)"}) {
    EXPECT_EQ(UnescapePython(bad).error().code, "bad_escape") << bad;
  }
}

TEST(ReadStringTest, TakesOnlyPlainStrings) {
  const auto read = [](const std::string& text) {
    const auto tree = Tree::Parse(text, "m.py");
    return ReadString(tree->Root().NamedChildren()[0].NamedChildren()[0]);
  };
  EXPECT_EQ(*read("r'a\\n'"), "a\\n");
  EXPECT_EQ(*read("''"), "");
  EXPECT_EQ(*read("('a'\n 'b')"), "ab");
  for (const char* other : {"f'a'", "b'a'", "x", "3"}) {
    EXPECT_EQ(read(other).error().code, "not_a_string") << other;
  }
}

// Texts in which quotes and backslashes meet often.
std::string Hard(const std::vector<uint8_t>& picks) {
  constexpr const char* kPieces[] = {"'",  "''", "'''", "\\", "\"",
                                     "\n", "a",  "\\n", "\r", "\xC3\xA9"};
  std::string text;
  for (uint8_t pick : picks) text += kPieces[pick % std::size(kPieces)];
  return text;
}

RC_GTEST_PROP(EscapeTest, ATripleQuotedLiteralReadsBack, (const std::vector<uint8_t>& picks)) {
  const std::string text = Hard(picks);
  const auto tree = Tree::Parse("'''" + EscapeForTripleQuotes(text) + "'''\n", "m.py");
  RC_ASSERT(tree.has_value());
  const auto value = ReadString(tree->Root().NamedChildren()[0].NamedChildren()[0]);
  RC_ASSERT(value && *value == text);
}

}  // namespace
}  // namespace kernelopt
