#include "pack/kernel_text_check.h"

#include <fmt/format.h>

#include <vector>

#include "edit/edit.h"
#include "inductor/module.h"
#include "syntax/tree.h"
#include "triton/static_check.h"

namespace kernelopt {
namespace {

/// The parameter list of the text's entry, "(in_ptr0, XBLOCK : tl.constexpr)".
Result<std::string> EntryParameters(const std::string& text, const std::string& entry) {
  const Tree tree = KOPT_TRY(Tree::Parse(text, entry));
  for (const Node statement : tree.Root().NamedChildren()) {
    const Node function = statement.Field("definition");
    if (function.Is("function_definition") && function.Field("name").Text() == entry) {
      return std::string(function.Field("parameters").Text());
    }
  }
  return Fail(ErrorKind::kUsage, "entry_mismatch",
              fmt::format("the text has no function {}", entry), entry);
}

}  // namespace

std::string RefusalOfText(const std::string& text, const std::string& entry,
                          const std::string& triton_version) {
  const auto parameters = EntryParameters(text, entry);
  if (!parameters) return parameters.error().ToString();
  const auto live = ReadKernelSource(
      fmt::format("@triton_heuristics.pointwise(size_hints={{}}, filename=__file__, "
                  "triton_meta={{}}, inductor_meta={{}})\n"
                  "@triton.jit\n"
                  "def {}{}:\n"
                  "    pass\n",
                  entry, *parameters),
      entry);
  if (!live) return live.error().ToString();
  const auto findings = CheckKernelText(text, *live, triton_version);
  if (findings.empty()) return {};
  return fmt::format("{} at line {} ({})", findings[0].message, findings[0].line, findings[0].code);
}

Result<std::string> RenameEntry(const std::string& text, std::string_view from,
                                std::string_view to) {
  if (from == to) return text;
  const Tree tree = KOPT_TRY(Tree::Parse(text, from));
  std::vector<Edit> edits;
  bool taken = false;
  const auto visit = [&](const auto& self, Node node) -> void {
    if (node.Is("identifier")) {
      taken = taken || node.Text() == to;
      if (node.Text() == from) edits.push_back({node.ByteSpan(), std::string(to)});
    }
    // x.NAME and f(NAME=1) are something else.
    const std::string_view skipped = node.Is("attribute")          ? "attribute"
                                     : node.Is("keyword_argument") ? "name"
                                                                   : "";
    const Span left_out = skipped.empty() ? Span{} : node.Field(skipped).ByteSpan();
    for (const Node child : node.NamedChildren()) {
      if (skipped.empty() || child.ByteSpan() != left_out) self(self, child);
    }
  };
  visit(visit, tree.Root());
  if (taken) {
    return Fail(ErrorKind::kUsage, "entry_mismatch",
                fmt::format("the text already uses the name {} for something else", to),
                std::string(from));
  }
  return ApplyEdits(text, std::move(edits));
}

}  // namespace kernelopt
