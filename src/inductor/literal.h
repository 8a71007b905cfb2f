// Python literals of generated code as JSON, and string literals as text.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "syntax/tree.h"

namespace kernelopt {

/// dict -> object (keys that aren't strings as their text), list, tuple, set
/// and set() -> array, int, float, str, True/False, None; anything else (names,
/// calls, integers beyond 64 bits) -> its text as a string.
Json ReadLiteral(Node node);

/// The value of a string literal or of several written side by side. Errors:
/// kUsage "not_a_string" for f-strings, bytes and anything else.
Result<std::string> ReadString(Node node);

/// The escapes of an ordinary Python string literal undone, as Python does.
/// Errors: kUsage "bad_escape" where Python would refuse (\x, \u, \U) and for
/// \N{...}, which would need Unicode's table of names.
Result<std::string> UnescapePython(std::string_view body);

/// `text` so that a '''...''' literal has it as its value.
std::string EscapeForTripleQuotes(std::string_view text);

}  // namespace kernelopt
