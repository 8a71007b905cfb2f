#include "store/sqlite_error.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/statvfs.h>

namespace kernelopt::store {

bool DiskIsFull(const std::string& path) {
  struct statvfs info;
  return statvfs(path.c_str(), &info) == 0 &&
         static_cast<uint64_t>(info.f_bavail) * info.f_frsize < 64 * 1024;
}

Error StoreError(int extended_code, std::string_view text, const std::string& path,
                 bool disk_is_full) {
  const auto environment = [&](std::string_view code, std::string message) {
    return Error{ErrorKind::kEnvironment, std::string(code), std::move(message), path};
  };
  int code = extended_code & 0xff;
  // Our own statements name what the schema has: what is missing was damaged.
  if (code == SQLITE_ERROR && (text.starts_with("no such ") || text.contains("malformed"))) {
    code = SQLITE_CORRUPT;
  }
  switch (code) {
    case SQLITE_FULL:
      return environment("disk_full",
                         "the disk is full; free some space and run the same command again");
    case SQLITE_IOERR:
      if (disk_is_full) {
        return environment("disk_full",
                           "the disk is full; free some space and run the same command again");
      }
      return environment("io_error", fmt::format("the disk failed ({})", text));
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return environment("not_writable", fmt::format("the store can't be opened for writing ({}); "
                                                     "choose another folder with --out",
                                                     text));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return environment("corrupt_store",
                         fmt::format("the store is damaged ({}); move the folder away and run "
                                     "again",
                                     text));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return environment("store_busy",
                         "another program keeps the store locked; close it and run "
                         "the same command again");
    case SQLITE_CONSTRAINT:
      return Error{ErrorKind::kInternal, "bad_record",
                   fmt::format("a row breaks a rule of the store ({})", text), path};
    default:
      return Error{ErrorKind::kInternal, "store_failed",
                   fmt::format("the store answered '{}'", text), path};
  }
}

}  // namespace kernelopt::store
