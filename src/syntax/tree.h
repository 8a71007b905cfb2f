// Python syntax trees.
//
//   Tree tree = KOPT_TRY(Tree::Parse(text, "module.py"));
//   for (Node statement : tree.Root().NamedChildren())
//     if (statement.Is("function_definition")) Use(statement.Field("name").Text());
//
// A thin wrapper of tree-sitter; no other folder sees its API. A Tree owns its
// text; a Node is a small value that is valid as long as its Tree. Node types
// and field names are those of tree-sitter's Python grammar. Every tree is at
// most kMaxDepth deep, so recursion over nodes is safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/span.h"

namespace kernelopt {

/// A place in a text, counted from 0; columns are in bytes.
struct Position {
  size_t row = 0;
  size_t column = 0;

  /// "file:line:column", counted from 1 as editors do.
  std::string In(std::string_view file) const;
};

class Node {
 public:
  Node() = default;  ///< the null node

  bool IsNull() const { return id_ == nullptr; }
  /// The node's type, "call" or "(", empty for the null node.
  std::string_view Type() const;
  bool Is(std::string_view type) const { return Type() == type; }
  bool IsNamed() const;
  /// True where the parser had to skip or invent something below this node.
  bool HasError() const;

  Span ByteSpan() const;
  std::string_view Text() const;
  Position Start() const;

  std::vector<Node> Children() const;
  /// Without punctuation, keywords, comments and line continuations.
  std::vector<Node> NamedChildren() const;
  /// The null node where there is no such field.
  Node Field(std::string_view name) const;

 private:
  friend class Tree;
  friend struct NodeAccess;

  // The bytes of a TSNode, and the text that its tree belongs to.
  std::array<uint32_t, 4> context_ = {};
  const void* id_ = nullptr;
  const void* tree_ = nullptr;
  const std::string* text_ = nullptr;
};

class Tree {
 public:
  static constexpr size_t kMaxBytes = 64u << 20;
  static constexpr int kMaxDepth = 1000;

  /// Parses a whole file; `file` is named in errors. Errors: kUsage
  /// "syntax_error" at the first place that isn't Python, "too_large",
  /// "too_deep"; kInternal "grammar_mismatch" for a grammar of another ABI.
  static Result<Tree> Parse(std::string text, std::string_view file);

  const std::string& Text() const { return *text_; }
  Node Root() const;

 private:
  struct Handle;
  Tree(std::unique_ptr<const std::string> text, std::shared_ptr<const Handle> handle);

  std::unique_ptr<const std::string> text_;  // its address outlives a move
  std::shared_ptr<const Handle> handle_;
};

/// A lexical token: what stays of a text when layout and comments are gone.
struct Token {
  enum class Kind { kName, kString, kOther, kNewline, kIndent, kDedent };
  Kind kind = Kind::kOther;
  std::string_view text;  ///< of the source; empty for the last three kinds
  Node node;              ///< null for the last three kinds
};

/// A statement that is only a string and so does nothing: documentation.
bool IsDocstring(Node statement);

/// The tokens below a node in order. A string is one token. Comments, line
/// continuations, statements that are only a string (docstrings) and
/// semicolons between statements are dropped; kNewline ends each statement and
/// kIndent, kDedent enclose each block, whether it was written on one line or
/// on many.
std::vector<Token> Tokens(Node node);

/// The texts of the tokens in one canonical layout: equal for two nodes
/// exactly if they differ at most in layout, comments and docstrings.
std::string CanonicalText(const std::vector<Token>& tokens);
std::string CanonicalText(Node node);

/// Calls `visit(node)` for the node and everything below it, outside in.
/// Nodes below one for which `visit` returns false are left out.
template <typename Visit>
void Walk(Node node, const Visit& visit) {
  if (!visit(node)) return;
  for (Node child : node.NamedChildren()) Walk(child, visit);
}

}  // namespace kernelopt
