// Variants of a kernel's text in its cache hints.
//
// Each variant changes only eviction_policy and cache_modifier arguments of
// tl.load and tl.store calls; nothing that is computed changes. Edits are made
// on the syntax tree, so strings, comments and other calls are never touched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kernelopt {

struct TextVariant {
  std::string name;    ///< "no_eviction_policy", stable
  std::string text;    ///< the whole kernel text
  std::string change;  ///< one sentence
};

/// The variants that differ from the text and from each other. Errors: kUsage
/// "syntax_error".
Result<std::vector<TextVariant>> HintVariants(std::string_view kernel_text);

}  // namespace kernelopt
