#include "triton/rules/pointwise.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace kernelopt {
namespace {

std::unexpected<Error> NotPointwise(std::string message) {
  return Fail(ErrorKind::kUsage, "not_pointwise", std::move(message));
}

std::optional<int64_t> Integer(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Node Unwrap(Node node) {
  while (node.Is("parenthesized_expression") && node.NamedChildren().size() == 1)
    node = node.NamedChildren().front();
  return node;
}

std::vector<Node> Positional(Node call) {
  std::vector<Node> arguments;
  for (Node argument : call.Field("arguments").NamedChildren())
    if (!argument.Is("keyword_argument")) arguments.push_back(argument);
  return arguments;
}

bool IsCall(Node node, std::string_view callee) {
  return node.Is("call") && node.Field("function").Text() == callee;
}

/// What an expression is known to be.
struct Known {
  std::optional<IndexForm> form;
  std::optional<std::vector<IndexForm>> conditions;
};

class Reader {
 public:
  explicit Reader(PointwiseKernel* kernel) : kernel_(*kernel) {}

  Status Read(Node body) {
    std::vector<Node> statements;
    for (Node statement : body.NamedChildren())
      if (!IsDocstring(statement) && !statement.Is("comment")) statements.push_back(statement);
    for (Node statement : statements) {
      if (!statement.Is("expression_statement") || statement.NamedChildren().size() != 1)
        return NotPointwise("found a statement that is neither an assignment nor a store");
      KOPT_CHECK_OK(Statement(statement.NamedChildren().front()));
    }
    if (kernel_.numel <= 0) return NotPointwise("xnumel is no number");
    if (!saw_xindex_) return NotPointwise("there is no xindex");
    return {};
  }

 private:
  Status Statement(Node node) {
    if (node.Is("assignment")) {
      Node left = node.Field("left"), right = node.Field("right");
      if (!left.Is("identifier") || right.IsNull() || !node.Field("type").IsNull())
        return NotPointwise("found an assignment of more than one name");
      std::string name(left.Text());
      if (!assigned_.insert(name).second) return NotPointwise("'" + name + "' is assigned twice");
      if (name == "xnumel" || name == "xoffset" || name == "xindex" || name == "xmask")
        return Head(name, right);
      if (saw_xindex_ && !saw_statement_ && Index(name, right)) return {};
      return Body(name, right);
    }
    if (IsCall(node, "tl.store")) return Store(node);
    return NotPointwise("found neither an assignment nor a tl.store");
  }

  Status Head(const std::string& name, Node right) {
    std::string text(right.Text());
    std::erase(text, ' ');
    auto is = [&](std::string_view wanted) { return text == wanted; };
    if (name == "xnumel") {
      auto value = Integer(right.Text());
      if (!value) return NotPointwise("xnumel is no number");
      kernel_.numel = *value;
    } else if (name == "xoffset") {
      if (!is("tl.program_id(0)*XBLOCK"))
        return NotPointwise("xoffset is not of 32 bits and one axis");
    } else if (name == "xindex") {
      if (!is("xoffset+tl.arange(0,XBLOCK)[:]"))
        return NotPointwise("xindex is not of 32 bits and one axis");
      saw_xindex_ = true;
    } else if (!is("xindex<xnumel") && !is("tl.full([XBLOCK],True,tl.int1)[:]")) {
      return NotPointwise("xmask is not that of one axis");
    }
    return {};
  }

  /// (xindex // d) % m, either part absent.
  bool Index(const std::string& name, Node right) {
    IndexVariable variable{name};
    Node node = Unwrap(right);
    auto take = [&](std::string_view operation, int64_t* number) {
      if (!node.Is("binary_operator") || node.Field("operator").Text() != operation) return true;
      auto value = Integer(Unwrap(node.Field("right")).Text());
      if (!value || *value <= 0) return false;
      *number = *value;
      node = Unwrap(node.Field("left"));
      return true;
    };
    if (!take("%", &variable.modulus) || !take("//", &variable.divisor)) return false;
    if (!node.Is("identifier") || node.Text() != "xindex") return false;
    kernel_.indices.push_back(variable);
    known_[name].form = IndexForm{{{name, 1}}, 0};
    return true;
  }

  Status Body(const std::string& name, Node right) {
    saw_statement_ = true;
    PointwiseStatement statement;
    statement.target = name;
    statement.node = right;
    KOPT_CHECK_OK(Uses(right, &statement));
    known_[name] = Know(right);
    kernel_.body.push_back(std::move(statement));
    return {};
  }

  Status Store(Node call) {
    saw_statement_ = true;
    std::vector<Node> arguments = Positional(call);
    if (arguments.size() < 2) return NotPointwise("found a tl.store without a value");
    PointwiseStatement statement;
    statement.node = arguments[1];
    statement.store = KOPT_TRY(Access(call, arguments.size() > 2 ? arguments[2] : Node()));
    KOPT_CHECK_OK(Uses(arguments[1], &statement));
    if (!statement.loads.empty()) return NotPointwise("found a load inside a store");
    stored_.insert(statement.store->pointer);
    kernel_.body.push_back(std::move(statement));
    return {};
  }

  Result<PointwiseAccess> Access(Node call, Node mask) {
    PointwiseAccess access;
    access.call = call;
    std::vector<Node> arguments = Positional(call);
    if (arguments.empty()) return NotPointwise("found an access without a pointer");
    Node pointer = Unwrap(arguments[0]);
    if (!pointer.Is("binary_operator") || pointer.Field("operator").Text() != "+" ||
        !pointer.Field("left").Is("identifier"))
      return NotPointwise("found a pointer that is not a parameter plus an offset");
    access.pointer = std::string(pointer.Field("left").Text());
    access.offset_node = pointer.Field("right");
    access.offset = Know(access.offset_node).form;
    for (Node argument : call.Field("arguments").NamedChildren()) {
      if (!argument.Is("keyword_argument")) continue;
      std::string_view keyword = argument.Field("name").Text();
      if (keyword == "mask") {
        mask = argument.Field("value");
      } else if (keyword == "other") {
        access.other = std::string(argument.Field("value").Text());
      } else {
        access.keywords += ", " + std::string(argument.Text());
      }
    }
    if (mask.IsNull() || mask.Text() == "None") {
      access.conditions.emplace();
    } else {
      access.mask = mask;
      access.conditions = Know(mask).conditions;
    }
    CollectNames(access.offset_node, &access.names);
    if (!access.mask.IsNull()) CollectNames(access.mask, &access.names);
    return access;
  }

  /// Names below a node that are read outside of tl.load calls.
  static void CollectNames(Node node, std::vector<std::string>* names) {
    Walk(node, [&](Node inner) {
      if (IsCall(inner, "tl.load")) return false;
      if (inner.Is("attribute")) {  // tl.int64, or tmp0.to
        CollectNames(inner.Field("object"), names);
        return false;
      }
      if (inner.Is("keyword_argument")) {
        CollectNames(inner.Field("value"), names);
        return false;
      }
      if (!inner.Is("identifier")) return true;
      std::string name(inner.Text());
      if (std::ranges::find(*names, name) == names->end()) names->push_back(std::move(name));
      return true;
    });
  }

  Status Uses(Node node, PointwiseStatement* statement) {
    Status status;
    Walk(node, [&](Node inner) {
      if (!status) return false;
      std::string_view callee = inner.Is("call") ? inner.Field("function").Text() : "";
      if (callee == "tl.load") {
        std::vector<Node> arguments = Positional(inner);
        auto load = Access(inner, arguments.size() > 1 ? arguments[1] : Node());
        if (!load) {
          status = std::unexpected(load.error());
        } else if (stored_.contains(load->pointer)) {
          status = NotPointwise("'" + load->pointer + "' is loaded after it was stored to");
        } else {
          statement->loads.push_back(std::move(*load));
        }
      }
      for (std::string_view refused :
           {"tl.debug_barrier", "tl.program_id", "tl.num_programs", "tl.device_assert", "tl.rand",
            "tl.randn", "tl.arange", "tl.reduce", "tl.sum"}) {
        if (callee == refused) status = NotPointwise("found a call of " + std::string(refused));
      }
      return true;
    });
    CollectNames(node, &statement->names);
    return status;
  }

  Known Know(Node node) {
    node = Unwrap(node);
    Known known;
    if (node.Is("identifier")) {
      if (node.Text() == "xmask") {
        known.conditions.emplace();
      } else if (auto it = known_.find(std::string(node.Text())); it != known_.end()) {
        known = it->second;
      } else if (node.Text() == "xindex") {
        known.form = IndexForm{{{"xindex", 1}}, 0};
      }
    } else if (node.Is("integer")) {
      if (auto value = Integer(node.Text())) known.form = IndexForm{{}, *value};
    } else if (node.Is("unary_operator") && node.Field("operator").Text() == "-") {
      if (auto inner = Know(node.Field("argument")).form) {
        known.form.emplace();
        known.form->Add(*inner, -1);
      }
    } else if (IsCall(node, "tl.full")) {
      std::vector<Node> arguments = Positional(node);
      if (arguments.size() == 3 && arguments[0].Text() == "[1]" &&
          (arguments[2].Text() == "tl.int64" || arguments[2].Text() == "tl.int32"))
        known = Know(arguments[1]);
    } else if (node.Is("comparison_operator")) {
      known.conditions = Comparison(node);
    } else if (node.Is("binary_operator")) {
      known = Binary(node);
    }
    return known;
  }

  Known Binary(Node node) {
    Known known;
    std::string_view operation = node.Field("operator").Text();
    Known left = Know(node.Field("left")), right = Know(node.Field("right"));
    if (operation == "&") {
      if (left.conditions && right.conditions) {
        known.conditions = left.conditions;
        for (const IndexForm& form : *right.conditions)
          if (std::ranges::find(*known.conditions, form) == known.conditions->end())
            known.conditions->push_back(form);
      }
    } else if (left.form && right.form) {
      if (operation == "+" || operation == "-") {
        known.form = left.form;
        known.form->Add(*right.form, operation == "+" ? 1 : -1);
      } else if (operation == "*" && left.form->terms.empty()) {
        known.form.emplace();
        known.form->Add(*right.form, left.form->constant);
      } else if (operation == "*" && right.form->terms.empty()) {
        known.form.emplace();
        known.form->Add(*left.form, right.form->constant);
      }
    }
    return known;
  }

  /// A condition that always holds adds nothing; one that never does, or that
  /// isn't linear, is not known.
  std::optional<std::vector<IndexForm>> Comparison(Node node) {
    std::vector<Node> parts = node.NamedChildren();
    if (parts.size() != 2) return std::nullopt;
    auto left = Know(parts[0]).form, right = Know(parts[1]).form;
    if (!left || !right) return std::nullopt;
    std::string_view operation;
    for (Node child : node.Children())
      if (!child.IsNamed()) operation = child.Text();
    IndexForm form;
    if (operation == ">=" || operation == ">") {
      form = *left;
      form.Add(*right, -1);
    } else if (operation == "<" || operation == "<=") {
      form = *right;
      form.Add(*left, -1);
    } else {
      return std::nullopt;
    }
    if (operation == ">" || operation == "<") form.constant -= 1;
    if (!form.terms.empty()) return std::vector<IndexForm>{form};
    if (form.constant < 0) return std::nullopt;
    return std::vector<IndexForm>{};
  }

  PointwiseKernel& kernel_;
  std::map<std::string, Known> known_;
  std::set<std::string> assigned_, stored_;
  bool saw_xindex_ = false, saw_statement_ = false;
};

}  // namespace

int64_t IndexForm::Coefficient(const std::string& symbol) const {
  auto it = terms.find(symbol);
  return it == terms.end() ? 0 : it->second;
}

void IndexForm::Add(const IndexForm& other, int64_t factor) {
  for (const auto& [symbol, coefficient] : other.terms) {
    int64_t& sum = terms[symbol];
    sum += factor * coefficient;
    if (sum == 0) terms.erase(symbol);
  }
  constant += factor * other.constant;
}

Result<PointwiseKernel> ReadPointwise(const std::string& text, const std::string& entry) {
  PointwiseKernel kernel;
  kernel.tree = std::make_shared<Tree>(KOPT_TRY(Tree::Parse(text, entry)));
  Node function;
  for (Node statement : kernel.tree->Root().NamedChildren()) {
    Node inner = statement.Is("decorated_definition") ? statement.Field("definition") : statement;
    if (inner.Is("function_definition") && inner.Field("name").Text() == entry) function = inner;
  }
  if (function.IsNull()) return NotPointwise("there is no function '" + entry + "'");
  Node body = function.Field("body");
  kernel.body_span = body.ByteSpan();
  KOPT_CHECK_OK(Reader(&kernel).Read(body));
  return kernel;
}

}  // namespace kernelopt
