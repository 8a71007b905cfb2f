#include "pipeline/locate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/hash.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;

std::string EnvironmentValue(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsExecutable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::string OnPath(const std::string& name) {
  std::istringstream folders(EnvironmentValue("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path path = fs::path(folder.empty() ? "." : folder) / name;
    if (IsExecutable(path)) return path.string();
  }
  return "";
}

/// A name with no slash is looked up on PATH, as a shell would.
Result<std::string> Resolve(const std::string& python, std::string_view said_by) {
  std::string path = python.find('/') == std::string::npos ? OnPath(python) : python;
  if (path.empty() || !IsExecutable(path)) {
    return Fail(
        ErrorKind::kEnvironment, "python_missing",
        fmt::format("{} names no program that can be run; give the Python that has torch", said_by),
        python);
  }
  return path;
}

bool HoldsPackage(const fs::path& package) {
  std::error_code error;
  return fs::is_regular_file(package / "__init__.py", error) &&
         fs::is_regular_file(package / "framing.py", error);
}

}  // namespace

std::string ProgramPath() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "kernelopt" : path.string();
}

Result<std::string> CacheFolder() {
  std::string base = EnvironmentValue("XDG_CACHE_HOME");
  if (base.empty()) {
    std::string home = EnvironmentValue("HOME");
    base = home.empty() ? fmt::format("/tmp/kernelopt-{}", getuid()) : home + "/.cache";
  }
  std::string folder = base + "/kernelopt";
  KOPT_CHECK_OK(MakeFolder(folder));
  return folder;
}

Result<std::string> FindPython(const std::string& given) {
  if (!given.empty()) return Resolve(given, "--python");
  if (std::string named = EnvironmentValue("KERNELOPT_PYTHON"); !named.empty()) {
    return Resolve(named, "KERNELOPT_PYTHON");
  }
  if (std::string active = EnvironmentValue("VIRTUAL_ENV"); !active.empty()) {
    if (fs::path path = fs::path(active) / "bin" / "python3"; IsExecutable(path)) {
      return path.string();
    }
  }
  if (std::string path = OnPath("python3"); !path.empty()) return path;
  return Fail(ErrorKind::kEnvironment, "python_missing",
              "no python3 is on PATH; give the Python that has torch with --python PATH");
}

Result<std::string> PackageFolder(const std::string& program, const std::string& cache) {
  fs::path folder = fs::path(program).parent_path();
  std::error_code error;
  if (folder.filename() == "bin" && HoldsPackage(folder.parent_path())) {
    fs::path package = folder.parent_path();
    fs::path imports = fs::path(cache) / "import" / Sha256Hex(package.string()).substr(0, 16);
    KOPT_CHECK_OK(MakeFolder(imports.string()));
    fs::path link = imports / "kernelopt";
    if (!fs::is_symlink(link, error)) {
      fs::create_directory_symlink(package, link, error);
      if (error && !PathExists(link.string())) {  // another process may have made it just now
        return std::unexpected(
            ErrnoError(error.value(), "not_writable", link.string(), "create a link"));
      }
    }
    return imports.string();
  }
  for (int up = 0; up < 6 && !folder.empty(); ++up) {
    if (HoldsPackage(folder / "python" / "kernelopt")) return (folder / "python").string();
    if (folder == folder.root_path()) break;
    folder = folder.parent_path();
  }
  return "";
}

}  // namespace kernelopt
