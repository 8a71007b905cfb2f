#include "syntax/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace kernelopt {
namespace {

Tree Parsed(std::string text) {
  auto tree = Tree::Parse(std::move(text), "m.py");
  EXPECT_TRUE(tree) << tree.error().ToString();
  return std::move(*tree);
}

std::string Canonical(std::string text) {
  return CanonicalText(Parsed(std::move(text)).Root());
}

TEST(TreeTest, GivesNodesWithFieldsAndPlaces) {
  const Tree tree = Parsed("x = 1\n\ndef f(a, b):  # note\n    return g(a)\n");
  const auto statements = tree.Root().NamedChildren();
  ASSERT_EQ(statements.size(), 2u);
  const Node function = statements[1];
  EXPECT_TRUE(function.Is("function_definition"));
  EXPECT_EQ(function.Field("name").Text(), "f");
  EXPECT_EQ(function.ByteSpan().begin, 7u);
  EXPECT_EQ(function.Start().In("m.py"), "m.py:3:1");
  EXPECT_TRUE(function.Field("no_such_field").IsNull());
  EXPECT_EQ(Node().Type(), "");
  EXPECT_TRUE(Node().Children().empty());
}

TEST(TreeTest, NamesTheFirstPlaceThatIsNotPython) {
  struct Case {
    const char* text;
    const char* where;
  };
  for (const Case& c : {Case{"x = 1\ny = = 2\n", "m.py:2:5"}, Case{"def f(:\n  pass\n", "m.py:1:7"},
                        Case{"s = '''abc\n", "m.py:1:5"}}) {
    const auto tree = Tree::Parse(c.text, "m.py");
    ASSERT_FALSE(tree) << c.text;
    EXPECT_EQ(tree.error().code, "syntax_error");
    EXPECT_EQ(tree.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(tree.error().where, c.where) << c.text;
  }
}

TEST(TreeTest, RefusesZeroBytesAndDeepNesting) {
  EXPECT_EQ(Tree::Parse(std::string("x = 1\n\0y", 8), "m.py").error().where, "m.py:2:1");
  const std::string deep = std::string(5000, '(') + "1" + std::string(5000, ')');
  EXPECT_EQ(Tree::Parse(deep, "m.py").error().code, "too_deep");
}

TEST(TokensTest, LayoutCommentsAndDocstringsDisappear) {
  const std::string plain = Canonical("def f(a):\n    if a:\n        return a + 1\n    return 2\n");
  for (const char* same : {
           "def f(a):\n  if a:\n      return a+1\n  return 2",
           "# top\ndef f( a ):\n    \"\"\"Doc.\"\"\"\n    if a: return a + 1  # one\n    return "
           "2\n",
           "def f(a):\n\n    if a:\n        return a + \\\n            1\n    return 2;\n",
           "'module'\ndef f(\n    a):\n    if a:\n        return a + 1\n    # end\n    return 2\n",
       }) {
    EXPECT_EQ(Canonical(same), plain) << same;
  }
  for (const char* other : {
           "def f(a):\n    if a:\n        return a + 2\n    return 2\n",
           "def f(a):\n    if a:\n        return a + 1\n        return 2\n",
           "def f(a):\n    if a:\n        return a + 1\n",
           "def g(a):\n    if a:\n        return a + 1\n    return 2\n",
       }) {
    EXPECT_NE(Canonical(other), plain) << other;
  }
}

TEST(TokensTest, AStringIsOneToken) {
  const Tree tree = Parsed("f('''a # b\n  c''', f\"{x} y\")\n");
  std::vector<std::string> strings;
  for (const Token& token : Tokens(tree.Root())) {
    if (token.kind == Token::Kind::kString) strings.emplace_back(token.text);
  }
  EXPECT_THAT(strings, testing::ElementsAre("'''a # b\n  c'''", "f\"{x} y\""));
}

RC_GTEST_PROP(TreeTest, AnyBytesGiveATreeOrAnError, (const std::string& text)) {
  const auto tree = Tree::Parse(text, "m.py");
  if (tree) {
    RC_ASSERT(!tree->Root().HasError());
    Tokens(tree->Root());
  } else {
    RC_ASSERT(!tree.error().message.empty());
  }
}

}  // namespace
}  // namespace kernelopt
