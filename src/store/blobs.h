// Content-addressed files: FOLDER/ab/cdef..., named by their SHA-256.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kernelopt::store {

/// 64 lower-case hexadecimal digits, and so safe as a path.
bool IsBlobName(std::string_view name);

std::string BlobPath(const std::string& folder, const std::string& name);

/// Writes the bytes unless they are there; returns their name. A file of that
/// name with other bytes (a crash of the machine) is written again.
Result<std::string> WriteBlob(const std::string& folder, std::string_view bytes);

/// Errors: kUsage "no_such_blob"; kEnvironment "corrupt_store".
Result<std::string> ReadBlob(const std::string& folder, const std::string& name);

/// Copies blobs that are missing in `to`; returns how many. A corrupt blob of
/// `from` is an error and is not copied.
Result<int64_t> CopyMissingBlobs(const std::string& from, const std::string& to);

}  // namespace kernelopt::store
