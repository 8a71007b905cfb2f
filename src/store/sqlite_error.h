// SQLite's result codes as this project's errors.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kernelopt::store {

/// `extended_code` is an extended result code of SQLite; `disk_is_full` tells
/// an input/output error for lack of space from any other.
Error StoreError(int extended_code, std::string_view text, const std::string& path,
                 bool disk_is_full);

/// Whether no space is left (for an unprivileged user) on the disk of `path`.
bool DiskIsFull(const std::string& path);

}  // namespace kernelopt::store
