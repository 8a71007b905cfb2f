#include "inductor/kernel_source.h"

#include <fmt/format.h>

#include "inductor/literal.h"

namespace kernelopt {
namespace {

constexpr std::string_view kHeuristics = "triton_heuristics.";

// The heuristics call among the decorators, or the null node.
Node HeuristicsOf(Node decorated) {
  for (Node decorator : Decorators(decorated)) {
    if (decorator.Is("call") && decorator.Field("function").Text().starts_with(kHeuristics)) {
      return decorator;
    }
  }
  return {};
}

}  // namespace

Node KeywordOf(Node call, std::string_view name) {
  for (Node argument : call.Field("arguments").NamedChildren()) {
    if (argument.Is("keyword_argument") && argument.Field("name").Text() == name) {
      return argument.Field("value");
    }
  }
  return {};
}

Node ValueOf(Node dictionary, std::string_view name) {
  if (!dictionary.Is("dictionary")) return {};
  Node found;
  for (Node pair : dictionary.NamedChildren()) {
    const auto key = ReadString(pair.Field("key"));
    if (key && *key == name) found = pair.Field("value");  // Python: the last one counts
  }
  return found;
}

std::vector<Node> Decorators(Node decorated) {
  std::vector<Node> decorators;
  if (!decorated.Is("decorated_definition")) return decorators;
  for (Node child : decorated.NamedChildren()) {
    if (!child.Is("decorator")) continue;
    for (Node expression : child.NamedChildren()) decorators.push_back(expression);
  }
  return decorators;
}

std::string Compact(std::string_view text) {
  std::string out(text);
  std::erase_if(out, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
  return out;
}

std::vector<Parameter> Parameters(Node function) {
  std::vector<Parameter> parameters;
  for (Node node : function.Field("parameters").NamedChildren()) {
    Parameter parameter;
    if (node.Is("identifier")) {
      parameter.name = node.Text();
    } else if (node.Is("typed_parameter") && !node.NamedChildren().empty() &&
               node.NamedChildren()[0].Is("identifier")) {
      parameter.name = node.NamedChildren()[0].Text();
      parameter.annotation = Compact(node.Field("type").Text());
    } else {
      parameter.plain = false;
      const Node name = node.Field("name");
      parameter.name = name.IsNull() ? node.Text() : name.Text();
      parameter.annotation = Compact(node.Field("type").Text());
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

Node KernelSource::Keyword(std::string_view name) const {
  return KeywordOf(heuristics, name);
}

Result<KernelSource> ParseKernelSource(std::string text, std::string_view file,
                                       std::string_view entry_name) {
  KernelSource source{KOPT_TRY(Tree::Parse(std::move(text), file)), {}, {}, {}, {}};
  const auto not_a_kernel = [&](std::string message) {
    return Fail(ErrorKind::kUsage, "not_a_kernel", std::move(message), std::string(file));
  };
  for (Node statement : source.tree.Root().NamedChildren()) {
    if (!statement.Is("decorated_definition")) continue;
    const Node function = statement.Field("definition");
    const Node heuristics = HeuristicsOf(statement);
    const bool named = entry_name.empty() || function.Field("name").Text() == entry_name;
    if (!heuristics.IsNull() && named && function.Is("function_definition")) {
      if (!source.entry.IsNull()) {
        return not_a_kernel(
            "found two functions with a triton_heuristics decorator, wanted one kernel; give one "
            "kernel a file");
      }
      source.entry = statement;
      source.function = function;
      source.heuristics = heuristics;
    } else {
      source.helpers.push_back(statement);
    }
  }
  if (source.entry.IsNull()) {
    return not_a_kernel(fmt::format(
        "found no function{}{} with a @triton_heuristics decorator, wanted the source of a "
        "generated kernel; give the text inside async_compile.triton(...)",
        entry_name.empty() ? "" : " ", entry_name));
  }
  if (!source.Keyword("triton_meta").Is("dictionary") ||
      !source.Keyword("inductor_meta").Is("dictionary")) {
    return not_a_kernel(
        "the decorator has no triton_meta and inductor_meta dictionaries, wanted both as Inductor "
        "writes them; the kernel is left alone");
  }
  return source;
}

}  // namespace kernelopt
