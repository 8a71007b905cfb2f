#include "store/blobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/fail_point.h"
#include "base/file.h"
#include "base/hash.h"

namespace kernelopt::store {
namespace fs = std::filesystem;

bool IsBlobName(std::string_view name) {
  return name.size() == 64 && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string BlobPath(const std::string& folder, const std::string& name) {
  return fmt::format("{}/{}/{}", folder, name.substr(0, 2), name.substr(2));
}

Result<std::string> WriteBlob(const std::string& folder, std::string_view bytes) {
  std::string name = Sha256Hex(bytes);
  if (auto present = ReadBlob(folder, name); present) return name;
  FailPoint("blob.write");
  KOPT_CHECK_OK(MakeFolder(fmt::format("{}/{}", folder, name.substr(0, 2))));
  KOPT_CHECK_OK(WriteFileAtomic(BlobPath(folder, name), bytes));
  FailPoint("blob.done");
  return name;
}

Result<std::string> ReadBlob(const std::string& folder, const std::string& name) {
  if (!IsBlobName(name)) {
    return Fail(
        ErrorKind::kUsage, "no_such_blob",
        fmt::format("'{}' can't name a blob; 64 hexadecimal digits are wanted", name.substr(0, 80)),
        folder);
  }
  const std::string path = BlobPath(folder, name);
  auto bytes = ReadFile(path);
  if (!bytes) {
    if (bytes.error().code != "no_such_file") return bytes;
    return Fail(ErrorKind::kUsage, "no_such_blob", "the run has no such blob", path);
  }
  if (const std::string found = Sha256Hex(*bytes); found != name) {
    return Fail(ErrorKind::kEnvironment, "corrupt_store",
                fmt::format("the file's SHA-256 is {}... and not that of its name; remove it and "
                            "resume the run",
                            found.substr(0, 8)),
                path);
  }
  return bytes;
}

Result<int64_t> CopyMissingBlobs(const std::string& from, const std::string& to) {
  int64_t copied = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file()) continue;
    const std::string name =
        it->path().parent_path().filename().string() + it->path().filename().string();
    if (!IsBlobName(name) || PathExists(BlobPath(to, name))) continue;
    const std::string bytes = KOPT_TRY(ReadBlob(from, name));
    KOPT_TRY(WriteBlob(to, bytes));
    ++copied;
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return std::unexpected(ErrnoError(error.value(), "not_readable", from, "list the blobs"));
  }
  return copied;
}

}  // namespace kernelopt::store
