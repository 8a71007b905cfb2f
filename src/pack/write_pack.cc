#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fail_point.h"
#include "base/file.h"
#include "base/hash.h"
#include "pack/kernel_file.h"
#include "pack/pack.h"

namespace kernelopt {
namespace {
namespace fs = std::filesystem;

std::unexpected<Error> BadPack(std::string message) {
  return Fail(ErrorKind::kInternal, "bad_pack", std::move(message));
}

Status CheckContents(const Pack& pack) {
  std::set<std::pair<std::string, std::string>> places;
  for (const PackKernel& kernel : pack.kernels) {
    const Replacement& replacement = kernel.replacement;
    if (replacement.form != ReplacementForm::kDropIn || replacement.steps.size() != 1 ||
        !replacement.workspaces.empty()) {
      return BadPack(
          fmt::format("the replacement of {} is not drop_in, and no other form can be "
                      "packed",
                      kernel.name));
    }
    for (const std::string& module : kernel.modules) {
      if (!places.emplace(module, replacement.kernel_key).second) {
        return BadPack(fmt::format("there are two replacements of {} for one module", kernel.name));
      }
    }
  }
  for (const auto& [name, text] : pack.evidence) {
    if (!IsPackFileName("evidence/" + name)) {
      return BadPack(fmt::format("'{}' can't name a file of evidence", name));
    }
  }
  return {};
}

/// Puts `made` in the place of `folder`, which exists: in one step where the
/// file system can exchange two names, else with a moment in which there is none.
Status Exchange(const std::string& made, const std::string& folder) {
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) {
    FailPoint("pack.done");
    return {};
  }
  // No TemporaryName: killed in between, the old pack stays whole beside.
  const std::string aside = folder + ".old";
  std::error_code ignored;
  fs::remove_all(aside, ignored);
  if (rename(folder.c_str(), aside.c_str()) != 0) {
    return std::unexpected(ErrnoError(errno, "not_writable", folder, "replace the pack"));
  }
  if (rename(made.c_str(), folder.c_str()) != 0) {
    const int error_number = errno;
    rename(aside.c_str(), folder.c_str());
    return std::unexpected(ErrnoError(error_number, "not_writable", folder, "replace the pack"));
  }
  fs::remove_all(aside, ignored);
  return {};
}

struct RemovedAtEnd {
  std::string path;
  ~RemovedAtEnd() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

Status WritePack(const Pack& given, const std::string& folder_name, PackMode mode) {
  std::string folder = folder_name;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  KOPT_CHECK_OK(CheckContents(given));

  Pack pack = given;
  std::map<std::string, std::string> contents;
  for (PackKernel& kernel : pack.kernels) {
    const std::string stem = KernelFileStem(kernel);
    kernel.id = kernel.replacement.Id();
    kernel.file = fmt::format("kernels/{}.py", stem);
    kernel.cubin_file = fmt::format("cubins/{}.cubin", stem);
    if (!contents.emplace(kernel.file, KernelFileText(kernel)).second) {
      return BadPack(fmt::format("the replacement of {} is listed twice", kernel.name));
    }
    contents.emplace(kernel.cubin_file, kernel.cubin);
  }
  for (const auto& [name, text] : pack.evidence) contents.emplace("evidence/" + name, text);
  if (!pack.report_html.empty()) contents.emplace("report.html", pack.report_html);
  pack.files.clear();
  for (const auto& [name, bytes] : contents) pack.files[name] = Sha256Hex(bytes);
  const std::string manifest =
      ManifestOf(pack).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";

  const bool exists = PathExists(folder);
  if (exists) {
    const auto present = ReadFile(folder + "/manifest.json");
    if (present && *present == manifest && ReadPack(folder)) return {};
    std::error_code error;
    if (!present && !fs::is_empty(folder, error)) {
      return Fail(ErrorKind::kUsage, "pack_exists",
                  "there is something here that is no pack and is left alone; choose another "
                  "name with --out",
                  folder);
    }
    if (present && mode == PackMode::kNew) {
      return Fail(ErrorKind::kUsage, "pack_exists",
                  "there is another pack of this name; remove it or choose another name with "
                  "--out",
                  folder);
    }
  }

  const std::string made = TemporaryName(folder);
  const RemovedAtEnd removed{made};
  std::error_code ignored;
  fs::remove_all(made, ignored);
  KOPT_CHECK_OK(MakeFolder(made + "/kernels"));
  KOPT_CHECK_OK(MakeFolder(made + "/cubins"));
  KOPT_CHECK_OK(MakeFolder(made + "/evidence"));
  for (const auto& [name, bytes] : contents) {
    KOPT_CHECK_OK(WriteFileAtomic(fmt::format("{}/{}", made, name), bytes));
    FailPoint("pack.file");
  }
  KOPT_CHECK_OK(WriteFileAtomic(made + "/manifest.json", manifest));
  KOPT_CHECK_OK(WriteFileAtomic(made + "/manifest.sha256", Sha256Hex(manifest) + "\n"));
  FailPoint("pack.rename");
  if (exists) return Exchange(made, folder);
  if (rename(made.c_str(), folder.c_str()) != 0) {
    return std::unexpected(ErrnoError(errno, "not_writable", folder, "write the pack"));
  }
  FailPoint("pack.done");
  return {};
}

}  // namespace kernelopt
