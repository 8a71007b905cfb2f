#include "triton/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "edit/edit.h"
#include "syntax/tree.h"

namespace kernelopt {
namespace {

/// A tl.load or tl.store call and where its hints are.
struct Access {
  bool is_load = true;
  std::string pointer;  ///< text of the pointer, without layout
  std::string base;     ///< the first name in it
  Node arguments;
  Node eviction, modifier;  ///< the keyword arguments, null where absent
};

void Collect(Node node, std::vector<Access>* accesses) {
  if (node.Is("call")) {
    std::string_view callee = node.Field("function").Text();
    if (callee == "tl.load" || callee == "tl.store") {
      Access access;
      access.is_load = callee == "tl.load";
      access.arguments = node.Field("arguments");
      for (Node argument : access.arguments.NamedChildren()) {
        if (argument.Is("keyword_argument")) {
          std::string_view name = argument.Field("name").Text();
          if (name == "eviction_policy") access.eviction = argument;
          if (name == "cache_modifier") access.modifier = argument;
        } else if (access.pointer.empty()) {
          access.pointer = CanonicalText(argument);
          Walk(argument, [&](Node inner) {
            if (inner.Is("identifier") && access.base.empty())
              access.base = std::string(inner.Text());
            return true;
          });
        }
      }
      accesses->push_back(std::move(access));
    }
  }
  for (Node child : node.NamedChildren()) Collect(child, accesses);
}

/// Sets, changes or (with an empty value) removes a keyword argument.
void SetKeyword(const Access& access, Node present, std::string_view keyword,
                std::string_view value, std::string_view text, std::vector<Edit>* edits) {
  if (!present.IsNull()) {
    Span span = present.ByteSpan();
    if (!value.empty()) {
      edits->push_back({span, fmt::format("{}='{}'", keyword, value)});
      return;
    }
    // With the comma in front of it; a pointer always comes first.
    size_t begin = span.begin;
    while (begin > 0 && text[begin - 1] != ',') --begin;
    edits->push_back({{begin - 1, span.end}, ""});
    return;
  }
  if (value.empty()) return;
  size_t at = access.arguments.NamedChildren().back().ByteSpan().end;
  edits->push_back({{at, at}, fmt::format(", {}='{}'", keyword, value)});
}

using Choice = std::function<std::string(const Access&, std::string_view old)>;

std::string OldValue(Node keyword) {
  if (keyword.IsNull()) return "";
  std::string_view text = keyword.Field("value").Text();
  return text.size() >= 2 ? std::string(text.substr(1, text.size() - 2)) : "";
}

}  // namespace

Result<std::vector<TextVariant>> HintVariants(std::string_view kernel_text) {
  Tree tree = KOPT_TRY(Tree::Parse(std::string(kernel_text), "kernel"));
  std::vector<Access> accesses;
  Collect(tree.Root(), &accesses);
  // How often each pointer's base is loaded: once means no reuse in the kernel.
  std::map<std::string, int> loads;
  for (const Access& access : accesses) loads[access.base] += access.is_load;

  std::vector<TextVariant> variants;
  std::set<std::string> seen = {std::string(kernel_text)};
  Status status;
  auto add = [&](std::string name, std::string change, const Choice& eviction,
                 const Choice& modifier) {
    std::vector<Edit> edits;
    for (const Access& access : accesses) {
      std::string old = OldValue(access.eviction);
      if (std::string chosen = eviction(access, old); chosen != old)
        SetKeyword(access, access.eviction, "eviction_policy", chosen, kernel_text, &edits);
      old = OldValue(access.modifier);
      if (std::string chosen = modifier(access, old); chosen != old)
        SetKeyword(access, access.modifier, "cache_modifier", chosen, kernel_text, &edits);
    }
    // Two insertions at one place become one, in the order of the keywords.
    std::stable_sort(edits.begin(), edits.end(),
                     [](const Edit& a, const Edit& b) { return a.span.begin < b.span.begin; });
    std::vector<Edit> merged;
    for (Edit& edit : edits) {
      if (!merged.empty() && merged.back().span == edit.span && edit.span.begin == edit.span.end) {
        merged.back().text += edit.text;
      } else {
        merged.push_back(std::move(edit));
      }
    }
    auto text = ApplyEdits(kernel_text, std::move(merged));
    if (!text) {
      status = std::unexpected(text.error());
    } else if (seen.insert(*text).second) {
      variants.push_back({std::move(name), std::move(*text), std::move(change)});
    }
  };

  Choice keep = [](const Access&, std::string_view old) { return std::string(old); };
  auto loads_only = [](std::string value) {
    return Choice([value](const Access& access, std::string_view old) {
      return access.is_load ? value : std::string(old);
    });
  };
  add(
      "no_eviction_policy", "no eviction policies", [](auto&, auto) { return std::string(); },
      keep);
  add(
      "evict_first_once_read", "tensors that the kernel reads once are evicted first",
      [&](const Access& access, std::string_view old) {
        return access.is_load && loads[access.base] == 1 ? "evict_first" : std::string(old);
      },
      keep);
  add(
      "evict_last_reread", "tensors that the kernel reads again are kept, others evicted first",
      [&](const Access& access, std::string_view old) {
        if (!access.is_load) return std::string(old);
        return std::string(loads[access.base] > 1 ? "evict_last" : "evict_first");
      },
      keep);
  add(
      "swap_eviction", "eviction policies exchanged",
      [](const Access&, std::string_view old) {
        if (old == "evict_first") return std::string("evict_last");
        if (old == "evict_last") return std::string("evict_first");
        return std::string(old);
      },
      keep);
  add("load_cg", "loads bypass L1", keep, loads_only(".cg"));
  add("store_cs", "stores are streamed", keep, [](const Access& access, std::string_view old) {
    return access.is_load ? std::string(old) : std::string(".cs");
  });
  add(
      "stream_all", "loads bypass L1, stores are streamed, no eviction policies",
      [](auto&, auto) { return std::string(); },
      [](const Access& access, std::string_view) {
        return std::string(access.is_load ? ".cg" : ".cs");
      });
  if (!status) return std::unexpected(status.error());
  return variants;
}

}  // namespace kernelopt
