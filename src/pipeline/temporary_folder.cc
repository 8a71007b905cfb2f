#include "pipeline/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.h"

namespace kernelopt {

Result<TemporaryFolder> TemporaryFolder::Make(const std::string& name) {
  const char* base = std::getenv("TMPDIR");
  std::string path =
      std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/" + name + "-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return std::unexpected(ErrnoError(errno, "not_writable", path, "make a folder"));
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace kernelopt
