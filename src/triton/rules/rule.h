// Rewrite rules: from a generated kernel to other texts that compute the same.
//
//   for (const RuleFinding& finding : ApplyRules(subject))
//     for (const RuleText& text : finding.texts) ...   // candidates for the gates
//
// A rule proposes, it never decides: each text goes through all gates as any
// other candidate does. Where a rule doesn't fit, its finding says why. Texts
// keep the kernel's name and parameters and its grid's formula (`drop_in`).
// Source of the rules: docs/rules.md.
#pragma once

#include <string>
#include <vector>

#include "device/replacement.h"

namespace kernelopt {

struct Kernel;  // inductor/module.h

struct RuleSubject {
  const Kernel& kernel;
  LaunchConfig config;  ///< the compiler's
};

/// One text, with the launch configurations that it was made for.
struct RuleText {
  std::string name;    ///< "shifted_window:vectors=4,rows=4,columns=512", stable
  std::string text;    ///< the whole kernel text
  std::string change;  ///< one sentence: what was changed and why
  std::vector<LaunchConfig> configs;
};

struct RuleFinding {
  std::string rule;             ///< "shifted_window"
  std::vector<RuleText> texts;  ///< empty: the rule doesn't fit
  std::string refusal;          ///< why not, one sentence
};

/// Every rule's finding, in the order in which they should be tried.
std::vector<RuleFinding> ApplyRules(const RuleSubject& subject);

/// Pointwise kernels that load one row at several shifts (pooling, stencils):
/// rewrites.md, family A.
RuleFinding ShiftedWindow(const RuleSubject& subject);

/// Pointwise kernels that divide a flat index into rows and columns: tiles of
/// rows take the division out of the elements, and what all rows share is
/// loaded once. rewrites.md, family E.
RuleFinding RowTiles(const RuleSubject& subject);

}  // namespace kernelopt
