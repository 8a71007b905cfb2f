#include "pipeline/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwner = "/.owner";

/// Folders NAME-XXXXXX in `base` whose owner is gone.
void RemoveAbandoned(const std::string& base, const std::string& name) {
  const size_t length = name.size() + std::string_view("-XXXXXX").size();
  std::error_code error;
  for (fs::directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
    const std::string found = it->path().filename().string();
    if (found.size() != length || !found.starts_with(name + "-")) continue;
    const int owner = open((it->path().string() + kOwner).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (owner < 0) continue;  // somebody else's
    // Held while it is removed, so that nobody begins to own it meanwhile.
    std::error_code ignored;
    if (flock(owner, LOCK_EX | LOCK_NB) == 0) fs::remove_all(it->path(), ignored);
    close(owner);
  }
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::Make(const std::string& name) {
  const char* temporary = std::getenv("TMPDIR");
  const std::string base = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  RemoveAbandoned(base, name);
  while (true) {
    std::string path = base + "/" + name + "-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return std::unexpected(ErrnoError(errno, "not_writable", path, "make a folder"));
    }
    const int owner = open((path + kOwner).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (owner < 0) {
      const int error_number = errno;
      std::error_code ignored;
      fs::remove_all(path, ignored);
      return std::unexpected(ErrnoError(error_number, "not_writable", path, "make a folder"));
    }
    (void)flock(owner, LOCK_EX);
    // Between its making and its locking another process may have taken it for abandoned.
    struct stat held, there;
    if (fstat(owner, &held) == 0 && stat((path + kOwner).c_str(), &there) == 0 &&
        held.st_ino == there.st_ino) {
      return TemporaryFolder(std::move(path), owner);
    }
    close(owner);
  }
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")), owner_(std::exchange(other.owner_, -1)) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(owner_, other.owner_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code error;
  fs::remove_all(path_, error);
  close(owner_);
}

}  // namespace kernelopt
