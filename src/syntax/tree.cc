#include "syntax/tree.h"

#include <fmt/format.h>
#include <tree_sitter/api.h>

#include <bit>
#include <cstring>

extern "C" const TSLanguage* tree_sitter_python(void);

namespace kernelopt {

// The only place that knows that a Node holds the bytes of a TSNode.
struct NodeAccess {
  struct Bytes {
    std::array<uint32_t, 4> context;
    const void* id;
    const void* tree;
  };
  static_assert(sizeof(Bytes) == sizeof(TSNode));

  static TSNode ToTs(const Node& node) {
    return std::bit_cast<TSNode>(Bytes{node.context_, node.id_, node.tree_});
  }
  static Node FromTs(TSNode ts, const std::string* text) {
    const Bytes bytes = std::bit_cast<Bytes>(ts);
    Node node;
    node.context_ = bytes.context;
    node.id_ = bytes.id;
    node.tree_ = bytes.tree;
    node.text_ = text;
    return node;
  }
};

namespace {

struct ParserDeleter {
  void operator()(TSParser* parser) const { ts_parser_delete(parser); }
};

// Cursors walk in linear time where ts_node_child(i) would be quadratic.
class Cursor {
 public:
  explicit Cursor(TSNode node) : cursor_(ts_tree_cursor_new(node)) {}
  ~Cursor() { ts_tree_cursor_delete(&cursor_); }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  TSNode Current() const { return ts_tree_cursor_current_node(&cursor_); }
  bool Down() { return ts_tree_cursor_goto_first_child(&cursor_); }
  bool Next() { return ts_tree_cursor_goto_next_sibling(&cursor_); }
  bool Up() { return ts_tree_cursor_goto_parent(&cursor_); }

 private:
  TSTreeCursor cursor_;
};

struct Survey {
  int depth = 0;
  TSNode error = {};  // the first error or missing node
  bool has_error = false;
};

Survey SurveyTree(TSNode root) {
  Survey survey;
  Cursor cursor(root);
  int depth = 1;
  while (true) {
    survey.depth = std::max(survey.depth, depth);
    const TSNode node = cursor.Current();
    if (!survey.has_error && (ts_node_is_error(node) || ts_node_is_missing(node))) {
      survey.has_error = true;
      survey.error = node;
    }
    if (cursor.Down()) {
      ++depth;
      continue;
    }
    while (!cursor.Next()) {
      if (!cursor.Up()) return survey;
      --depth;
    }
  }
}

Position ToPosition(TSPoint point) {
  return {point.row, point.column};
}

Position PositionOfByte(std::string_view text, size_t byte) {
  Position position;
  for (size_t i = 0; i < byte; ++i) {
    if (text[i] == '\n') {
      ++position.row;
      position.column = 0;
    } else {
      ++position.column;
    }
  }
  return position;
}

bool IsBlank(const Node& node) {
  return node.Is("comment") || node.Is("line_continuation");
}

void AppendTokens(const Node& node, std::vector<Token>& out) {
  if (node.Is("string")) {
    out.push_back({Token::Kind::kString, node.Text(), node});
    return;
  }
  const auto children = node.Children();
  if (children.empty()) {
    if (node.Text().empty()) return;
    const auto kind = node.Is("identifier") ? Token::Kind::kName : Token::Kind::kOther;
    out.push_back({kind, node.Text(), node});
    return;
  }
  const bool is_block = node.Is("block");
  const bool has_statements = is_block || node.Is("module");
  if (is_block) out.push_back({Token::Kind::kIndent, {}, {}});
  for (const Node& child : children) {
    if (IsBlank(child)) continue;
    if (has_statements && (child.Is(";") || IsDocstring(child))) continue;
    AppendTokens(child, out);
    if (has_statements) out.push_back({Token::Kind::kNewline, {}, {}});
  }
  if (is_block) out.push_back({Token::Kind::kDedent, {}, {}});
}

}  // namespace

std::string Position::In(std::string_view file) const {
  return fmt::format("{}:{}:{}", file, row + 1, column + 1);
}

std::string_view Node::Type() const {
  return IsNull() ? std::string_view{} : ts_node_type(NodeAccess::ToTs(*this));
}

bool Node::IsNamed() const {
  return !IsNull() && ts_node_is_named(NodeAccess::ToTs(*this));
}

bool Node::HasError() const {
  return !IsNull() && ts_node_has_error(NodeAccess::ToTs(*this));
}

Span Node::ByteSpan() const {
  if (IsNull()) return {};
  const TSNode ts = NodeAccess::ToTs(*this);
  return {ts_node_start_byte(ts), ts_node_end_byte(ts)};
}

std::string_view Node::Text() const {
  return IsNull() ? std::string_view{} : ByteSpan().In(*text_);
}

Position Node::Start() const {
  return IsNull() ? Position{} : ToPosition(ts_node_start_point(NodeAccess::ToTs(*this)));
}

std::vector<Node> Node::Children() const {
  std::vector<Node> children;
  if (IsNull()) return children;
  Cursor cursor(NodeAccess::ToTs(*this));
  if (!cursor.Down()) return children;
  do {
    children.push_back(NodeAccess::FromTs(cursor.Current(), text_));
  } while (cursor.Next());
  return children;
}

std::vector<Node> Node::NamedChildren() const {
  std::vector<Node> children = Children();
  std::erase_if(children, [](const Node& child) { return !child.IsNamed() || IsBlank(child); });
  return children;
}

Node Node::Field(std::string_view name) const {
  if (IsNull()) return {};
  const TSNode field = ts_node_child_by_field_name(NodeAccess::ToTs(*this), name.data(),
                                                   static_cast<uint32_t>(name.size()));
  return ts_node_is_null(field) ? Node{} : NodeAccess::FromTs(field, text_);
}

struct Tree::Handle {
  explicit Handle(TSTree* tree) : tree(tree) {}
  ~Handle() { ts_tree_delete(tree); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  TSTree* tree;
};

Tree::Tree(std::unique_ptr<const std::string> text, std::shared_ptr<const Handle> handle)
    : text_(std::move(text)), handle_(std::move(handle)) {}

Node Tree::Root() const {
  return NodeAccess::FromTs(ts_tree_root_node(handle_->tree), text_.get());
}

Result<Tree> Tree::Parse(std::string text, std::string_view file) {
  if (text.size() > kMaxBytes) {
    return Fail(ErrorKind::kUsage, "too_large",
                fmt::format("the text has {} bytes, wanted at most {}; give a single module",
                            text.size(), kMaxBytes),
                std::string(file));
  }
  // Python refuses zero bytes, and the grammar takes one for the end of input.
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    return Fail(ErrorKind::kUsage, "syntax_error",
                "found a zero byte, wanted Python text; give the module as Inductor wrote it",
                PositionOfByte(text, zero).In(file));
  }
  const TSLanguage* language = tree_sitter_python();
  std::unique_ptr<TSParser, ParserDeleter> parser(ts_parser_new());
  if (!ts_parser_set_language(parser.get(), language)) {
    return Fail(
        ErrorKind::kInternal, "grammar_mismatch",
        fmt::format("the Python grammar has ABI {}, wanted {} to {}; rebuild kernelopt "
                    "with the pinned tree-sitter",
                    ts_language_version(language), TREE_SITTER_MIN_COMPATIBLE_LANGUAGE_VERSION,
                    TREE_SITTER_LANGUAGE_VERSION));
  }
  auto owned = std::make_unique<const std::string>(std::move(text));
  TSTree* parsed = ts_parser_parse_string(parser.get(), nullptr, owned->data(),
                                          static_cast<uint32_t>(owned->size()));
  Tree tree(std::move(owned), std::make_shared<const Handle>(parsed));
  const Survey survey = SurveyTree(ts_tree_root_node(parsed));
  if (survey.has_error) {
    const Node node = NodeAccess::FromTs(survey.error, tree.text_.get());
    std::string found = ts_node_is_missing(survey.error)
                            ? fmt::format("'{}' is missing", node.Type())
                            : fmt::format("found '{}'", node.Text().substr(0, 40));
    for (char& c : found) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    return Fail(ErrorKind::kUsage, "syntax_error",
                fmt::format("{}, wanted Python; give the text as it was generated", found),
                node.Start().In(file));
  }
  if (survey.depth > kMaxDepth) {
    return Fail(ErrorKind::kUsage, "too_deep",
                fmt::format("the code is nested {} levels deep, wanted at most {}; it is not read",
                            survey.depth, kMaxDepth),
                std::string(file));
  }
  return tree;
}

bool IsDocstring(Node statement) {
  if (!statement.Is("expression_statement")) return false;
  const auto children = statement.NamedChildren();
  return children.size() == 1 &&
         (children[0].Is("string") || children[0].Is("concatenated_string"));
}

std::vector<Token> Tokens(Node node) {
  std::vector<Token> tokens;
  if (!node.IsNull()) AppendTokens(node, tokens);
  return tokens;
}

std::string CanonicalText(const std::vector<Token>& tokens) {
  std::string text;
  int depth = 0;
  bool at_start = true;
  for (const Token& token : tokens) {
    switch (token.kind) {
      case Token::Kind::kNewline:
        if (!at_start) text += '\n';
        at_start = true;
        break;
      case Token::Kind::kIndent:
        ++depth;
        text += '\n';
        at_start = true;
        break;
      case Token::Kind::kDedent:
        --depth;
        // A block without statements still differs from no block at all.
        text += at_start ? "" : "\n";
        at_start = true;
        text.append(static_cast<size_t>(depth), ' ');
        text += "end\n";
        break;
      default:
        text += at_start ? std::string(static_cast<size_t>(depth), ' ') : " ";
        text += token.text;
        at_start = false;
    }
  }
  return text;
}

std::string CanonicalText(Node node) {
  return CanonicalText(Tokens(node));
}

}  // namespace kernelopt
