// Whole files, with one-sentence errors. A written file is either the old or
// the new one, never half: text goes to a temporary neighbour, is synced, and
// is renamed over the target.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kernelopt {

/// No file that is read whole is longer: something that never ends, such as
/// /dev/zero, must not take all memory.
inline constexpr size_t kMaxFileBytes = size_t{1} << 30;

/// Errors: kUsage "no_such_file" (a folder and a circle of links too),
/// "too_large"; kEnvironment "not_readable".
Result<std::string> ReadFile(const std::string& path, size_t max_bytes = kMaxFileBytes);

/// Errors: kEnvironment "not_writable", "disk_full".
Status WriteFileAtomic(const std::string& path, std::string_view bytes);

/// What a file or folder is called while this process makes it: PATH.PID.tmp.
std::string TemporaryName(const std::string& path);

/// Removes, at any depth in `folder`, what processes that are gone were making
/// (TemporaryName), where its name begins with `begin`. The caller holds the lock that
/// such files are written under, and writes none meanwhile. What can't be removed stays.
void RemoveLeftovers(const std::string& folder, std::string_view begin = "");

/// Whether there is something that can be looked at. Never throws, as
/// std::filesystem::exists(path) does for a circle of links.
bool PathExists(const std::string& path);

/// Creates the folder and its parents. Errors: kEnvironment "not_writable", "disk_full".
Status MakeFolder(const std::string& path);

/// An error of kind kEnvironment for an errno, with "disk_full" for ENOSPC
/// and EDQUOT and `code` for anything else.
Error ErrnoError(int error_number, std::string_view code, const std::string& path,
                 std::string_view doing);

}  // namespace kernelopt
