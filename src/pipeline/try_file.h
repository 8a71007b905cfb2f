// The file of a hand-written candidate, for `kernelopt try`: a kernel text
// (device/replacement.h), which may begin with a comment that says how to launch it.
//
//   # Configuration: XBLOCK=64 warps=8
//   # Configuration: XBLOCK=128 warps=8 stages=2 maxnreg=64
//
//   @triton.jit
//   def triton_per_fused_sum_0(...):
//
// One replacement a line; what a line doesn't name, or a file without lines, is
// as the compiler chose it. Other lines of the comment are for people, so that
// a kernel's file of a pack (pack/kernel_file.h) is a candidate as it stands.
#pragma once

#include <string>
#include <vector>

#include "agents/search.h"
#include "base/result.h"
#include "device/replacement.h"

namespace kernelopt {

/// Drop-ins for the subject's kernel, in the order of the lines; equal ones once.
/// `file` is for messages. Errors: kUsage "bad_configuration" with file:line.
Result<std::vector<Replacement>> ReadCandidates(const std::string& text, const std::string& file,
                                                const SearchSubject& subject);

}  // namespace kernelopt
