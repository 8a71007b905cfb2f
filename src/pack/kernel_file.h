// One kernel of a pack as a file for people: a comment that says what it
// replaces, what was changed and why and what was measured; an empty line; the
// replacement's kernel text, byte for byte.
#pragma once

#include <string>
#include <string_view>

#include "pack/pack.h"

namespace kernelopt {

std::string KernelFileText(const PackKernel& kernel);

/// The kernel text of such a file: what follows the first comment and its
/// empty line. Any text without such a comment is returned as it is.
std::string_view KernelTextOf(std::string_view file_text);

/// "NAME_ID8": a file name without an ending, safe whatever the name is.
std::string KernelFileStem(const PackKernel& kernel);

/// Whether a name of a manifest stays inside the pack: relative, at most two
/// parts of letters, digits, '.', '_', '-' and '+', none of which starts with '.'.
bool IsPackFileName(std::string_view name);

}  // namespace kernelopt
