// Gate 1 on the kernel text of a pack, and the text under another entry name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kernelopt {

/// Empty, or one sentence why gate 1 refuses the text whose entry function is
/// `entry`. There is no live kernel to compare with, so the entry is held to
/// its own parameters; against the live kernel's it is held in ResolveModule.
std::string RefusalOfText(const std::string& text, const std::string& entry,
                          const std::string& triton_version);

/// The text with its entry function called `to`. The compiler numbers its
/// kernels, so the same kernel of the same module may have another name where
/// the pack is used. Errors: kUsage "entry_mismatch" when `to` already means
/// something in the text; those of Tree::Parse.
Result<std::string> RenameEntry(const std::string& text, std::string_view from,
                                std::string_view to);

}  // namespace kernelopt
