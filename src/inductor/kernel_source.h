// The syntax of one kernel's source: what reading, canonical keys, splicing
// and refusals all look at. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "syntax/tree.h"

namespace kernelopt {

struct KernelSource {
  Tree tree;
  Node entry;                 ///< decorated_definition of the entry
  Node function;              ///< its function_definition
  Node heuristics;            ///< the call `triton_heuristics.KIND(...)`
  std::vector<Node> helpers;  ///< decorated_definitions of the other functions

  /// The value of a keyword of the heuristics call, or the null node.
  Node Keyword(std::string_view name) const;
};

/// `entry_name` empty: the only function with a heuristics decorator. Errors:
/// those of Tree::Parse; kUsage "not_a_kernel".
Result<KernelSource> ParseKernelSource(std::string text, std::string_view file,
                                       std::string_view entry_name);

/// The value of keyword `name` in a call's arguments, or the null node.
Node KeywordOf(Node call, std::string_view name);

/// The value of string key `name` of a dictionary, or the null node.
Node ValueOf(Node dictionary, std::string_view name);

/// The decorators' expressions of a decorated_definition.
std::vector<Node> Decorators(Node decorated);

/// Text without blanks and line ends, for short things such as "tl.constexpr".
std::string Compact(std::string_view text);

struct Parameter {
  std::string name;
  std::string annotation;
  bool plain = true;  ///< neither default nor star
  bool operator==(const Parameter&) const = default;
};

std::vector<Parameter> Parameters(Node function);

}  // namespace kernelopt
