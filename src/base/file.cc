#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/fail_point.h"

namespace kernelopt {

Error ErrnoError(int error_number, std::string_view code, const std::string& path,
                 std::string_view doing) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return Error{ErrorKind::kEnvironment, full ? "disk_full" : std::string(code),
               fmt::format("could not {}: {}{}", doing, std::strerror(error_number),
                           full ? "; free some space and run the same command again" : ""),
               path};
}

namespace {

Error ReadError(int error_number, const std::string& path) {
  const auto wrong_path = [&](std::string message) {
    return Error{ErrorKind::kUsage, "no_such_file", std::move(message), path};
  };
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return wrong_path("there is no such file; check the path");
    case ENAMETOOLONG:
      return wrong_path("the path is longer than a path can be; check it");
    case ELOOP:
      return wrong_path("the links lead in a circle; check the path");
    case EISDIR:
      return wrong_path("this is a folder, wanted a file; check the path");
    default:
      return ErrnoError(error_number, "not_readable", path, "read the file");
  }
}

/// A TemporaryName of a process that is gone. One of this process's number is of an
/// earlier process: in a container each run may have the same.
bool IsLeftover(std::string_view name) {
  constexpr std::string_view kEnding = ".tmp";
  if (!name.ends_with(kEnding)) return false;
  name.remove_suffix(kEnding.size());
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const char* end = name.data() + name.size();
  pid_t process = 0;
  const auto [rest, error] = std::from_chars(name.data() + dot + 1, end, process);
  if (error != std::errc() || rest != end || process <= 0) return false;
  return process == getpid() || (kill(process, 0) != 0 && errno == ESRCH);
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::unexpected(ReadError(errno, path));
  std::string bytes;
  char buffer[1 << 16];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) bytes.append(buffer, static_cast<size_t>(n));
    if (bytes.size() > max_bytes) {
      close(fd);
      return Fail(ErrorKind::kUsage, "too_large",
                  fmt::format("the file has more than the {} bytes that are read; check the path",
                              max_bytes),
                  path);
    }
  }
  const int error_number = errno;
  close(fd);
  if (n < 0) return std::unexpected(ReadError(error_number, path));
  return bytes;
}

std::string TemporaryName(const std::string& path) {
  return fmt::format("{}.{}.tmp", path, getpid());
}

void RemoveLeftovers(const std::string& folder, std::string_view begin) {
  namespace fs = std::filesystem;
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(begin) || !IsLeftover(name)) continue;
    found.push_back(it->path());
    it.disable_recursion_pending();
  }
  for (const fs::path& path : found) fs::remove_all(path, error);
}

Status WriteFileAtomic(const std::string& path, std::string_view bytes) {
  const std::string temporary = TemporaryName(path);
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return std::unexpected(ErrnoError(errno, "not_writable", path, "write the file"));
  FailPoint("file.open");
  int error_number = 0;
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      error_number = errno;
      break;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  FailPoint("file.write");
  if (error_number == 0 && fsync(fd) != 0) error_number = errno;
  if (close(fd) != 0 && error_number == 0) error_number = errno;
  FailPoint("file.rename");
  if (error_number == 0 && rename(temporary.c_str(), path.c_str()) != 0) error_number = errno;
  FailPoint("file.done");
  if (error_number != 0) {
    unlink(temporary.c_str());
    return std::unexpected(ErrnoError(error_number, "not_writable", path, "write the file"));
  }
  return {};
}

bool PathExists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return std::unexpected(ErrnoError(error.value(), "not_writable", path, "create the folder"));
  }
  return {};
}

}  // namespace kernelopt
