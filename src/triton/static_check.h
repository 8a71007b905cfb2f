// Gate 1 on a kernel's text: what may be compiled at all.
//
// The text of a replacement (helper functions and one entry, no imports) is
// untrusted Python that a compile worker and the user's process will execute.
// So nothing is forbidden by list: only what is enumerated is allowed, and
// everything else is refused with a reason code and a place. Allowed names come
// from a data file made per triton version (names.inc); layout and comments
// decide nothing.
//
//   std::vector<StaticFinding> findings = CheckKernelText(text, live, "3.6.0");
//   if (findings.empty()) ...   // may be compiled
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kernelopt {

struct Kernel;  // inductor/module.h

struct StaticFinding {
  std::string code;     ///< reason code (docs/gates.md)
  std::string message;  ///< one sentence
  int line = 0;         ///< 1-based; 0 = no place
  int column = 0;       ///< 1-based, in bytes
};

/// Empty when the text is allowed; else the findings in the order of the text.
/// `live` is the compiler's kernel that it would replace; `triton_version`
/// "3.6.0" (a version that names.inc doesn't know may use the names that all
/// known ones share).
std::vector<StaticFinding> CheckKernelText(std::string_view text, const Kernel& live,
                                           std::string_view triton_version);

}  // namespace kernelopt
