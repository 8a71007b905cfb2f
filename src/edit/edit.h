// Edits as values: byte ranges of one text and what takes their place.
//
//   std::string out = KOPT_TRY(ApplyEdits(text, {{{4, 8}, "new"}, {{20, 20}, "!"}}));
//
// All spans count in the same, unedited text, so the order in which edits are
// collected doesn't matter. Two edits of one byte are an error, never a guess.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/span.h"

namespace kernelopt {

struct Edit {
  Span span;         ///< empty: an insertion before span.begin
  std::string text;  ///< empty: a removal
};

/// Errors, both kInternal: "edit_overlap" names the two edits that meet (share
/// a byte, or are insertions at one place); "edit_outside" one beyond the text.
Result<std::string> ApplyEdits(std::string_view text, std::vector<Edit> edits);

/// The difference in the format of `diff -u` with three lines of context;
/// empty when the texts are equal.
std::string UnifiedDiff(std::string_view old_text, std::string_view new_text,
                        std::string_view old_name, std::string_view new_name);

}  // namespace kernelopt
