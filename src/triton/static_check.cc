#include "triton/static_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "inductor/module.h"
#include "syntax/tree.h"

namespace kernelopt {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr unsigned kTriton35 = 1;
constexpr unsigned kTriton36 = 2;
constexpr unsigned kTriton37 = 4;
constexpr unsigned kTriton38 = 8;

/// Names like "tl.load" that all versions of the mask have.
Names NamesOf(unsigned versions) {
  static constexpr std::pair<std::string_view, unsigned> kNames[] = {
#include "triton/names.inc"
  };
  Names names;
  for (const auto& [name, found_in] : kNames)
    if ((found_in & versions) == versions) names.insert(std::string(name));
  return names;
}

const Names& NamesOf(std::string_view version) {
  static const std::map<std::string, Names, std::less<>> kKnown = {{"3.5", NamesOf(kTriton35)},
                                                                   {"3.6", NamesOf(kTriton36)},
                                                                   {"3.7", NamesOf(kTriton37)},
                                                                   {"3.8", NamesOf(kTriton38)}};
  static const Names kShared = NamesOf(kTriton35 | kTriton36 | kTriton37 | kTriton38);
  const size_t dot = version.find('.', version.find('.') + 1);
  const auto known = kKnown.find(version.substr(0, dot));
  return known == kKnown.end() ? kShared : known->second;
}

bool IsModule(std::string_view name) {
  return name == "tl" || name == "triton_helpers" || name == "libdevice" || name == "tl_math";
}

bool IsBuiltin(std::string_view name) {
  return name == "float" || name == "int" || name == "min" || name == "max" || name == "range";
}

/// Attributes of values: methods and properties of tensors and types.
bool IsValueAttribute(std::string_view name) {
  static const Names kNames = {"to",          "shape",   "dtype",   "element_ty", "broadcast_to",
                               "expand_dims", "reshape", "permute", "trans",      "T"};
  return kNames.contains(name);
}

/// Keywords of calls into the modules; helpers also take their own parameters'.
bool IsKeyword(std::string_view name) {
  static const Names kNames = {"mask",
                               "other",
                               "eviction_policy",
                               "cache_modifier",
                               "axis",
                               "dim",
                               "keep_dims",
                               "reverse",
                               "dtype",
                               "input_precision",
                               "allow_tf32",
                               "out_dtype",
                               "bitcast",
                               "descending",
                               "propagate_nan",
                               "can_reorder",
                               "num_stages",
                               "loop_unroll_factor",
                               "flatten",
                               "return_indices",
                               "ieee_rounding",
                               "fp_downcast_rounding",
                               "return_indices_tie_break_left",
                               "tie_break_left",
                               "combine_fn",
                               "acc"};
  return kNames.contains(name);
}

std::string WithoutSpaces(std::string_view text) {
  std::string result;
  for (char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) result.push_back(c);
  return result;
}

/// "tl.math.exp" of a chain of attributes on a plain name, else "".
std::string DottedName(Node node) {
  if (node.Is("identifier")) return std::string(node.Text());
  if (!node.Is("attribute")) return "";
  std::string object = DottedName(node.Field("object"));
  if (object.empty()) return "";
  return object + "." + std::string(node.Field("attribute").Text());
}

struct FunctionText {
  std::string name;
  Node definition;
};

class Checker {
 public:
  Checker(const Kernel& live, std::string_view version) : live_(live), names_(NamesOf(version)) {}

  std::vector<StaticFinding> Run(Node root) {
    std::vector<FunctionText> functions;
    for (Node statement : root.NamedChildren()) TopLevel(statement, &functions);
    for (const FunctionText& function : functions) {
      if (!function_names_.insert(function.name).second)
        Add(function.definition, "duplicate_function",
            fmt::format("function {} is defined twice", function.name));
      if (IsReserved(function.name))
        Add(function.definition, "rebinds_name",
            fmt::format("a function may not be called {}", function.name));
      for (const auto& [name, annotation] : Parameters(function.definition))
        keywords_[function.name].insert(name);
    }
    if (!function_names_.contains(live_.entry))
      findings_.push_back(
          {"missing_entry",
           fmt::format("found no function {}, wanted the compiler's entry name", live_.entry), 1,
           1});
    for (const FunctionText& function : functions) {
      if (function.name == live_.entry) CompareParameters(function.definition);
      CheckFunction(function.definition);
    }
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const StaticFinding& a, const StaticFinding& b) {
                       return std::pair(a.line, a.column) < std::pair(b.line, b.column);
                     });
    return std::move(findings_);
  }

 private:
  void Add(Node node, std::string code, std::string message) {
    Position place = node.Start();
    findings_.push_back({std::move(code), std::move(message), static_cast<int>(place.row) + 1,
                         static_cast<int>(place.column) + 1});
  }

  bool IsReserved(std::string_view name) const {
    return IsModule(name) || IsBuiltin(name) || name == "triton" || name.starts_with("__");
  }

  void TopLevel(Node statement, std::vector<FunctionText>* functions) {
    if (statement.Is("import_statement") || statement.Is("import_from_statement") ||
        statement.Is("future_import_statement")) {
      Add(statement, "import", "a kernel's text may not import anything");
      return;
    }
    Node definition = statement.Field("definition");
    if (!statement.Is("decorated_definition") || !definition.Is("function_definition")) {
      if (statement.Is("function_definition")) {
        Add(statement, "decorator", "every function must be decorated with @triton.jit");
        return;
      }
      Add(statement, "top_level_statement",
          fmt::format("found a {} outside of functions, wanted only @triton.jit functions",
                      statement.Type()));
      return;
    }
    int decorators = 0;
    for (Node child : statement.NamedChildren()) {
      if (!child.Is("decorator")) continue;
      ++decorators;
      std::vector<Node> expression = child.NamedChildren();
      if (expression.size() != 1 || DottedName(expression[0]) != "triton.jit")
        Add(child, "decorator",
            fmt::format("found the decorator {}, wanted exactly @triton.jit", child.Text()));
    }
    if (decorators > 1) Add(statement, "decorator", "found several decorators, wanted one");
    functions->push_back({std::string(definition.Field("name").Text()), definition});
  }

  /// Name and annotation of each parameter; what isn't plain is reported by
  /// CheckFunction.
  static std::vector<std::pair<std::string, std::string>> Parameters(Node definition) {
    std::vector<std::pair<std::string, std::string>> result;
    for (Node parameter : definition.Field("parameters").NamedChildren()) {
      if (parameter.Is("identifier")) {
        result.emplace_back(parameter.Text(), "");
      } else if (parameter.Is("typed_parameter")) {
        std::vector<Node> children = parameter.NamedChildren();
        std::string name = children.empty() ? "" : std::string(children[0].Text());
        result.emplace_back(name, WithoutSpaces(parameter.Field("type").Text()));
      }
    }
    return result;
  }

  void CompareParameters(Node definition) {
    std::vector<std::pair<std::string, std::string>> found = Parameters(definition);
    for (size_t i = 0; i < std::max(found.size(), live_.arguments.size()); ++i) {
      std::string have = i < found.size() ? found[i].first : "nothing";
      std::string want = i < live_.arguments.size() ? live_.arguments[i].name : "nothing";
      if (have != want) {
        Add(definition, "entry_parameters",
            fmt::format("parameter {} is {}, wanted {} as in the compiler's kernel", i + 1, have,
                        want));
        return;
      }
      if (found[i].second != WithoutSpaces(live_.arguments[i].annotation)) {
        Add(definition, "entry_parameters",
            fmt::format("parameter {} has another annotation than in the compiler's kernel", have));
        return;
      }
    }
  }

  void CheckFunction(Node definition) {
    for (Node child : definition.Children()) {
      if (child.Is("async")) Add(child, "forbidden_statement", "a kernel can't be asynchronous");
    }
    if (!definition.Field("return_type").IsNull())
      Add(definition.Field("return_type"), "annotation", "a function may not have a return type");
    if (!definition.Field("type_parameters").IsNull())
      Add(definition, "annotation", "a function may not have type parameters");
    locals_.clear();
    for (Node parameter : definition.Field("parameters").NamedChildren()) {
      std::string_view name = parameter.Text();
      if (parameter.Is("typed_parameter")) {
        std::vector<Node> children = parameter.NamedChildren();
        if (children.empty() || !children[0].Is("identifier")) {
          Add(parameter, "parameter_kind", "only plain parameters are allowed, no * or **");
          continue;
        }
        name = children[0].Text();
        if (WithoutSpaces(parameter.Field("type").Text()) != "tl.constexpr")
          Add(parameter, "annotation",
              fmt::format("found the annotation {}, wanted tl.constexpr or none",
                          parameter.Field("type").Text()));
      } else if (parameter.Is("default_parameter") || parameter.Is("typed_default_parameter")) {
        Add(parameter, "parameter_default", "a parameter may not have a default");
        continue;
      } else if (!parameter.Is("identifier")) {
        Add(parameter, "parameter_kind", "only plain parameters are allowed, no *, ** or /");
        continue;
      }
      Bind(parameter, name);
    }
    Node body = definition.Field("body");
    CollectTargets(body);
    Block(body);
  }

  void Bind(Node node, std::string_view name) {
    if (IsReserved(name) || function_names_.contains(name))
      Add(node, "rebinds_name", fmt::format("{} may not be given another meaning", name));
    locals_.insert(std::string(name));
  }

  /// Names that the function assigns, wherever: they are local to all of it.
  void CollectTargets(Node node) {
    Walk(node, [&](Node inner) {
      Node target;
      if (inner.Is("assignment") || inner.Is("augmented_assignment") || inner.Is("for_statement"))
        target = inner.Field("left");
      if (!target.IsNull()) BindTarget(target);
      return true;
    });
  }

  void BindTarget(Node target) {
    if (target.Is("identifier")) {
      Bind(target, target.Text());
    } else if (target.Is("pattern_list") || target.Is("tuple_pattern")) {
      for (Node part : target.NamedChildren()) BindTarget(part);
    } else {
      Add(target, "forbidden_target",
          fmt::format("found an assignment to a {}, wanted names only", target.Type()));
    }
  }

  void Block(Node block) {
    for (Node statement : block.NamedChildren()) Statement(statement);
  }

  void Statement(Node statement) {
    if (statement.Is("expression_statement")) {
      for (Node inner : statement.NamedChildren()) {
        if (inner.Is("assignment")) {
          Assignment(inner);
        } else if (inner.Is("augmented_assignment")) {
          Operator(inner, inner.Field("operator"));
          Expression(inner.Field("right"));
        } else {
          Expression(inner);
        }
      }
    } else if (statement.Is("return_statement")) {
      for (Node value : statement.NamedChildren()) Expression(value);
    } else if (statement.Is("pass_statement")) {
      return;
    } else if (statement.Is("for_statement")) {
      ForLoop(statement);
    } else if (statement.Is("if_statement")) {
      Expression(statement.Field("condition"));
      Block(statement.Field("consequence"));
      for (Node clause : statement.NamedChildren()) {
        if (clause.Is("elif_clause")) {
          Expression(clause.Field("condition"));
          Block(clause.Field("consequence"));
        } else if (clause.Is("else_clause")) {
          Block(clause.Field("body"));
        }
      }
    } else {
      Add(statement, "forbidden_statement",
          fmt::format("found a {}, wanted assignments, calls, loops over ranges, if or return",
                      statement.Type()));
    }
  }

  void Assignment(Node assignment) {
    Node type = assignment.Field("type");
    if (!type.IsNull() && WithoutSpaces(type.Text()) != "tl.constexpr")
      Add(type, "annotation",
          fmt::format("found the annotation {}, wanted tl.constexpr or none", type.Text()));
    Node right = assignment.Field("right");
    if (right.IsNull()) {
      Add(assignment, "annotation", "found an annotation without a value");
    } else if (right.Is("assignment")) {
      Assignment(right);  // a = b = value
    } else {
      Expression(right);
    }
  }

  void ForLoop(Node loop) {
    for (Node child : loop.Children()) {
      if (child.Is("async")) Add(child, "forbidden_statement", "a loop can't be asynchronous");
    }
    Node range = loop.Field("right");
    std::string callee = range.Is("call") ? DottedName(range.Field("function")) : "";
    if (callee != "tl.range" && callee != "tl.static_range" && callee != "range")
      Add(range, "loop_form", "a loop must go over tl.range, tl.static_range or range");
    Expression(range);
    Block(loop.Field("body"));
    if (!loop.Field("alternative").IsNull())
      Add(loop.Field("alternative"), "forbidden_statement", "a loop may not have an else");
  }

  void Operator(Node node, Node op) {
    static const Names kOperators = {
        "+",  "-",  "*",  "/",  "//",  "%",  "&",  "|",  "^",  "<<",  ">>",
        "+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>="};
    if (!kOperators.contains(op.Text()))
      Add(node, "forbidden_expression", fmt::format("found the operator {}", op.Text()));
  }

  void Expression(Node node) {
    if (node.IsNull()) return;
    std::string_view type = node.Type();
    if (type == "identifier") {
      Name(node);
    } else if (type == "integer" || type == "float") {
      if (node.Text().find_first_of("jJ") != std::string_view::npos &&
          !node.Text().starts_with("0x") && !node.Text().starts_with("0X"))
        Add(node, "forbidden_expression", "found an imaginary number");
    } else if (type == "true" || type == "false" || type == "none") {
      return;
    } else if (type == "string") {
      String(node);
    } else if (type == "binary_operator") {
      Operator(node, node.Field("operator"));
      Expression(node.Field("left"));
      Expression(node.Field("right"));
    } else if (type == "unary_operator" || type == "not_operator") {
      Expression(node.Field("argument"));
    } else if (type == "boolean_operator") {
      Expression(node.Field("left"));
      Expression(node.Field("right"));
    } else if (type == "comparison_operator" || type == "parenthesized_expression" ||
               type == "tuple" || type == "list" || type == "expression_list" || type == "slice" ||
               type == "conditional_expression") {
      for (Node child : node.NamedChildren()) Expression(child);
    } else if (type == "subscript") {
      for (Node child : node.NamedChildren()) Expression(child);
    } else if (type == "attribute") {
      Attribute(node);
    } else if (type == "call") {
      Call(node);
    } else {
      Add(node, "forbidden_expression", fmt::format("found a {}", type));
    }
  }

  void Name(Node node) {
    std::string_view name = node.Text();
    if (locals_.contains(name) || function_names_.contains(name)) return;
    Add(node, IsModule(name) || name == "triton" ? "module_as_value" : "unknown_name",
        fmt::format("{} is neither local nor a function of this text", name));
  }

  void String(Node node) {
    Walk(node, [&](Node inner) {
      if (inner.Is("interpolation"))
        Add(inner, "forbidden_expression", "a string may not contain expressions");
      return true;
    });
    if (std::string_view text = node.Text(); !text.empty() && text[0] != '\'' && text[0] != '"')
      Add(node, "forbidden_expression", "a string may not have a prefix");
  }

  void Attribute(Node node) {
    std::string dotted = DottedName(node);
    std::string root = dotted.substr(0, dotted.find('.'));
    bool is_module = !dotted.empty() && IsModule(root) && !locals_.contains(root);
    if (is_module || root == "triton") {
      if (!IsKnown(dotted))
        Add(node, "unknown_attribute", fmt::format("{} is not an allowed name", dotted));
      return;
    }
    std::string_view attribute = node.Field("attribute").Text();
    if (!IsValueAttribute(attribute))
      Add(node, "forbidden_attribute", fmt::format("found the attribute .{}", attribute));
    Expression(node.Field("object"));
  }

  bool IsKnown(const std::string& dotted) const {
    if (names_.contains(dotted)) return true;
    constexpr std::string_view kMath = "tl.math.";
    if (dotted.starts_with(kMath)) return names_.contains("tl_math." + dotted.substr(kMath.size()));
    // "tl.float32.element_ty" and the like are attributes of a known value.
    size_t last = dotted.rfind('.');
    return last != std::string::npos && dotted.find('.') != last &&
           names_.contains(dotted.substr(0, last)) &&
           IsValueAttribute(std::string_view(dotted).substr(last + 1));
  }

  void Call(Node node) {
    Node callee = node.Field("function");
    std::string name = DottedName(callee);
    if (callee.Is("identifier")) {
      if (!function_names_.contains(name) && !IsBuiltin(name))
        Add(callee, "unknown_call",
            fmt::format("{} is neither a function of this text nor an allowed built-in", name));
    } else if (callee.Is("attribute")) {
      Attribute(callee);
    } else {
      Add(callee, "forbidden_expression", fmt::format("found a call of a {}", callee.Type()));
    }
    Node arguments = node.Field("arguments");
    if (!arguments.Is("argument_list")) {
      Add(node, "forbidden_expression", "found a generator as argument");
      return;
    }
    for (Node argument : arguments.NamedChildren()) {
      if (!argument.Is("keyword_argument")) {
        Expression(argument);
        continue;
      }
      std::string_view keyword = argument.Field("name").Text();
      Node value = argument.Field("value");
      // Only a helper's own parameters: one called `volatile` lets no load be that.
      const bool known =
          function_names_.contains(name) ? keywords_[name].contains(keyword) : IsKeyword(keyword);
      if (!known) Add(argument, "keyword_argument", fmt::format("found the keyword {}", keyword));
      if (keyword == "eviction_policy" || keyword == "cache_modifier") CacheHint(keyword, value);
      Expression(value);
    }
    CheckPositionalHints(name, arguments);
  }

  void CacheHint(std::string_view keyword, Node value) {
    static const Names kPolicies = {"", "evict_first", "evict_last"};
    static const Names kModifiers = {"", ".ca", ".cg", ".cs", ".wb", ".wt"};
    std::string_view text = value.Text();
    bool plain = value.Is("string") && text.size() >= 2 && (text[0] == '\'' || text[0] == '"');
    std::string_view inner = plain ? text.substr(1, text.size() - 2) : std::string_view();
    const Names& allowed = keyword == "eviction_policy" ? kPolicies : kModifiers;
    if (!plain || !allowed.contains(inner))
      Add(value, "cache_hint",
          fmt::format("found {} = {}, which is not an allowed hint", keyword, text));
  }

  /// tl.load and tl.store take volatile and cache hints by position, too: only
  /// pointer, (value,) mask and other may be passed that way.
  void CheckPositionalHints(const std::string& callee, Node arguments) {
    if (callee != "tl.load" && callee != "tl.store") return;
    size_t positional = 0;
    for (Node argument : arguments.NamedChildren()) positional += !argument.Is("keyword_argument");
    if (positional > 3)
      Add(arguments, "cache_hint",
          fmt::format("{} has {} positional arguments, wanted at most 3", callee, positional));
  }

  const Kernel& live_;
  const Names& names_;
  Names function_names_, locals_;
  std::map<std::string, Names> keywords_;  ///< of each function of the text
  std::vector<StaticFinding> findings_;
};

}  // namespace

std::vector<StaticFinding> CheckKernelText(std::string_view text, const Kernel& live,
                                           std::string_view triton_version) {
  auto tree = Tree::Parse(std::string(text), "kernel");
  if (!tree) {
    // "kernel:3:7"
    const std::string& where = tree.error().where;
    int line = 1, column = 1;
    (void)sscanf(where.c_str(), "kernel:%d:%d", &line, &column);
    return {{"syntax_error", tree.error().message, line, column}};
  }
  return Checker(live, triton_version).Run(tree->Root());
}

}  // namespace kernelopt
