// Whole files, with one-sentence errors. A written file is either the old or
// the new one, never half: text goes to a temporary neighbour, is synced, and
// is renamed over the target.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kernelopt {

/// Errors: kUsage "no_such_file", kEnvironment "not_readable".
Result<std::string> ReadFile(const std::string& path);

/// Errors: kEnvironment "not_writable", "disk_full".
Status WriteFileAtomic(const std::string& path, std::string_view bytes);

/// Creates the folder and its parents. Errors: kEnvironment "not_writable", "disk_full".
Status MakeFolder(const std::string& path);

/// An error of kind kEnvironment for an errno, with "disk_full" for ENOSPC
/// and EDQUOT and `code` for anything else.
Error ErrnoError(int error_number, std::string_view code, const std::string& path,
                 std::string_view doing);

}  // namespace kernelopt
