#include "inductor/splice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "edit/edit.h"
#include "inductor/kernel_source.h"
#include "inductor/literal.h"

namespace kernelopt {
namespace {

constexpr std::string_view kSuffix = "__kopt";

// Kernels whose decorator only chooses a configuration: fixed_config can take
// its place. (The others also set options or launch in their own way.)
constexpr std::array<std::string_view, 3> kDropInDecorators = {"pointwise", "reduction",
                                                               "persistent_reduction"};

std::unexpected<Error> BadText(const Kernel& live, std::string message, Node node) {
  return Fail(ErrorKind::kUsage, "bad_kernel_text", std::move(message), node.Start().In(live.name));
}

bool IsJit(Node decorated) {
  const auto decorators = Decorators(decorated);
  return decorators.size() == 1 && decorators[0].Text() == "triton.jit";
}

// The functions of a replacement's text.
struct TextFunctions {
  Tree tree;
  Node entry;  ///< decorated_definition
};

Result<TextFunctions> ParseText(const Kernel& live, const std::string& text) {
  TextFunctions functions{KOPT_TRY(Tree::Parse(text, live.name)), {}};
  for (Node statement : functions.tree.Root().NamedChildren()) {
    const Node function = statement.Field("definition");
    if (!function.Is("function_definition") || !IsJit(statement)) {
      return BadText(live,
                     fmt::format("found '{}', wanted only functions with the one decorator "
                                 "@triton.jit; move everything else out of the text",
                                 statement.Text().substr(0, 40)),
                     statement);
    }
    if (function.Field("name").Text() != live.entry) continue;
    if (!functions.entry.IsNull()) {
      return BadText(live, fmt::format("found two functions {}, wanted one", live.entry),
                     statement);
    }
    functions.entry = statement;
  }
  return functions;
}

std::string Spell(const std::vector<Parameter>& parameters) {
  std::string text;
  for (const Parameter& parameter : parameters) {
    text += text.empty() ? "" : ", ";
    text += parameter.name;
    if (!parameter.annotation.empty()) text += ": " + parameter.annotation;
    if (!parameter.plain) text += " (with a default or a star)";
  }
  return text;
}

Status CheckEntry(const Kernel& live, const TextFunctions& functions, Node live_function) {
  const auto mismatch = [&](std::string message) {
    return Fail(ErrorKind::kUsage, "entry_mismatch", std::move(message), live.name);
  };
  if (functions.entry.IsNull()) {
    return mismatch(
        fmt::format("the text has no function {}, wanted the kernel's own entry; "
                    "keep its name",
                    live.entry));
  }
  const auto found = Parameters(functions.entry.Field("definition"));
  const auto wanted = Parameters(live_function);
  if (found != wanted || !std::ranges::all_of(found, &Parameter::plain)) {
    return mismatch(
        fmt::format("the text's entry has the parameters ({}), wanted ({}); keep the "
                    "kernel's own",
                    Spell(found), Spell(wanted)));
  }
  return {};
}

// Every use of a function's name in the text becomes the new name. Attributes
// (x.name) and keywords (f(name=1)) of the same spelling are something else.
void RenameUses(Node node, std::string_view name, std::vector<Edit>& edits) {
  if (node.Is("identifier") && node.Text() == name) {
    edits.push_back({node.ByteSpan(), std::string(name) + std::string(kSuffix)});
  }
  const std::string_view skipped = node.Is("attribute")          ? "attribute"
                                   : node.Is("keyword_argument") ? "name"
                                                                 : "";
  const Span left_out = skipped.empty() ? Span{} : node.Field(skipped).ByteSpan();
  for (Node child : node.NamedChildren()) {
    if (skipped.empty() || child.ByteSpan() != left_out) RenameUses(child, name, edits);
  }
}

Result<std::string> ConfigText(const Kernel& live, const LaunchConfig& config) {
  std::string text;
  for (const KernelArgument& argument : live.arguments) {
    if (argument.annotation != "tl.constexpr") continue;
    const auto value = config.constexprs.find(argument.name);
    if (value == config.constexprs.end()) {
      return Fail(ErrorKind::kUsage, "missing_constexpr",
                  fmt::format("the configuration has no {}, wanted a value for each constexpr "
                              "parameter",
                              argument.name),
                  live.name);
    }
    text += fmt::format("'{}': {}, ", argument.name, value->second);
  }
  text += fmt::format("'num_warps': {}, 'num_stages': {}", config.num_warps, config.num_stages);
  if (config.num_ctas != 1) text += fmt::format(", 'num_ctas': {}", config.num_ctas);
  if (config.maxnreg) text += fmt::format(", 'maxnreg': {}", *config.maxnreg);
  return "{" + text + "}";
}

// Where a function and the line end after it lie.
Span WithLineEnd(Span span, std::string_view text) {
  while (span.end < text.size() && text[span.end] == '\n') ++span.end;
  return span;
}

}  // namespace

std::string KernelText(const Kernel& kernel) {
  const auto source = ParseKernelSource(kernel.text, kernel.name, kernel.entry);
  if (!source) return {};
  std::string text;
  for (Node helper : source->helpers) {
    if (helper.Field("definition").Is("function_definition")) {
      text += fmt::format("{}\n\n", helper.Text());
    }
  }
  for (Node decorator : Decorators(source->entry)) {
    if (decorator.ByteSpan() != source->heuristics.ByteSpan()) {
      text += fmt::format("@{}\n", decorator.Text());
    }
  }
  return text + fmt::format("{}\n", source->function.Text());
}

Result<std::string> BuildSource(const Kernel& live, const ReplacementStep& step) {
  const bool own_grid = std::ranges::any_of(step.grid, [](const auto& g) { return !g.empty(); });
  if (own_grid || step.cooperative) {
    return Fail(ErrorKind::kInternal, "not_drop_in",
                "found a step with its own grid or a cooperative launch, wanted a drop-in step; "
                "only the kernel's own grid can be launched from its call site",
                live.name);
  }
  if (std::ranges::count(kDropInDecorators, live.decorator) == 0) {
    return Fail(ErrorKind::kInternal, "not_drop_in",
                fmt::format("found a kernel with the decorator '{}', wanted pointwise, reduction "
                            "or persistent_reduction; the compiler's kernel is kept",
                            live.decorator),
                live.name);
  }
  const KernelSource source = KOPT_TRY(ParseKernelSource(live.text, live.name, live.entry));
  const TextFunctions functions = KOPT_TRY(ParseText(live, step.kernel_text));
  KOPT_CHECK_OK(CheckEntry(live, functions, source.function));
  const std::string config = KOPT_TRY(ConfigText(live, step.config));

  std::vector<Edit> renames;
  RenameUses(functions.tree.Root(), live.entry, renames);
  // The decorator goes above the entry, helpers before it stay where they are.
  const std::string decorator = fmt::format(
      "@triton_heuristics.fixed_config(\n"
      "    config={},\n"
      "    filename=__file__,\n"
      "    triton_meta={},\n"
      "    inductor_meta={}\n"
      ")\n",
      config, source.Keyword("triton_meta").Text(), source.Keyword("inductor_meta").Text());
  const size_t entry_begin = functions.entry.ByteSpan().begin;
  renames.push_back({{entry_begin, entry_begin}, decorator});
  std::string body = KOPT_TRY(ApplyEdits(step.kernel_text, std::move(renames)));
  while (body.ends_with('\n')) body.pop_back();
  body += fmt::format("\n\n{0} = {0}{1}\n", live.entry, kSuffix);

  std::vector<Edit> edits;
  for (Node helper : source.helpers) {
    if (IsJit(helper)) edits.push_back({WithLineEnd(helper.ByteSpan(), live.text), ""});
  }
  edits.push_back({WithLineEnd(source.entry.ByteSpan(), live.text), body});
  return ApplyEdits(live.text, std::move(edits));
}

Result<std::string> SpliceModule(const Module& module,
                                 const std::vector<std::pair<std::string, std::string>>& sources) {
  std::vector<Edit> edits;
  for (const auto& [name, source] : sources) {
    const Kernel* kernel = module.FindKernel(name);
    const std::string_view quote =
        kernel && kernel->source.begin >= 3
            ? std::string_view(module.text).substr(kernel->source.begin - 3, 3)
            : std::string_view();
    if (quote != "'''") {
      return Fail(ErrorKind::kUsage, "no_such_kernel",
                  fmt::format("the module has no kernel '{}' between ''' and ''', wanted one of "
                              "its {} kernels",
                              name, module.kernels.size()));
    }
    if (source != kernel->text) edits.push_back({kernel->source, EscapeForTripleQuotes(source)});
  }
  return ApplyEdits(module.text, std::move(edits));
}

Status CheckOutsideEqual(const Module& original, const std::string& spliced,
                         const std::vector<std::string>& replaced) {
  const auto changed = [](size_t byte, std::string_view what) {
    return Fail(ErrorKind::kInternal, "outside_changed",
                fmt::format("the edited module differs from the compiler's in {} at byte {}, "
                            "wanted a change only inside replaced kernels; nothing is replaced",
                            what, byte));
  };
  const Module other = KOPT_TRY(ReadModule(spliced, "edited module"));
  if (other.kernels.size() != original.kernels.size()) {
    return changed(0, "its number of kernels");
  }
  const std::set<std::string> names(replaced.begin(), replaced.end());
  size_t a = 0, b = 0;
  const auto compare_to = [&](size_t a_end, size_t b_end) -> Status {
    const std::string_view before = std::string_view(original.text).substr(a, a_end - a);
    const std::string_view after = std::string_view(spliced).substr(b, b_end - b);
    if (before != after) {
      const auto at = std::ranges::mismatch(before, after).in2 - after.begin();
      return changed(b + static_cast<size_t>(at), "its text");
    }
    return {};
  };
  for (size_t i = 0; i < original.kernels.size(); ++i) {
    const Kernel& before = original.kernels[i];
    const Kernel& after = other.kernels[i];
    if (!names.contains(before.name)) continue;
    KOPT_CHECK_OK(compare_to(before.source.begin, after.source.begin));
    a = before.source.end;
    b = after.source.end;
  }
  KOPT_CHECK_OK(compare_to(original.text.size(), spliced.size()));

  // Equal text means equal calls; this guards against a reader that would take
  // the inside of a replaced source for code.
  const auto same_launch = [](const Launch& x, const Launch& y) {
    return x.kernel == y.kernel && x.function == y.function && x.arguments == y.arguments &&
           x.stream == y.stream;
  };
  const auto same_extern = [](const ExternCall& x, const ExternCall& y) {
    return x.target == y.target && x.function == y.function && x.arguments == y.arguments;
  };
  if (!std::ranges::equal(original.launches, other.launches, same_launch)) {
    return changed(spliced.size(), "its launches");
  }
  if (!std::ranges::equal(original.externs, other.externs, same_extern)) {
    return changed(spliced.size(), "its library calls");
  }
  return {};
}

}  // namespace kernelopt
