#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "pack/kernel_file.h"
#include "pack/kernel_text_check.h"
#include "pack/pack.h"

namespace kernelopt {
namespace {

constexpr std::string_view kAgain = "make the pack again with `kernelopt optimize`";

std::unexpected<Error> Edited(const std::string& path, std::string_view what) {
  return Fail(ErrorKind::kUsage, "edited_pack",
              fmt::format("{} and is not what was proven; {}", what, kAgain), path);
}

/// A file of a pack: a regular one, so that a link can't lead elsewhere.
Result<std::string> ReadPackFile(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Fail(ErrorKind::kUsage, "corrupt_pack",
                fmt::format("the file is missing in the pack; {}", kAgain), path);
  }
  return ReadFile(path);
}

std::string_view Major(std::string_view version) {
  return version.substr(0, version.find('+'));
}

}  // namespace

Result<Pack> ReadPack(const std::string& folder) {
  const std::string manifest_path = folder + "/manifest.json";
  struct stat info;
  if (lstat(manifest_path.c_str(), &info) != 0) {
    return Fail(ErrorKind::kUsage, "no_such_pack",
                "there is no pack here (no manifest.json); give the folder NAME.kopt", folder);
  }
  const std::string manifest = KOPT_TRY(ReadPackFile(manifest_path));
  // The schema is read before the hash: what a newer version changed may be
  // the way in which it is hashed.
  Pack pack = KOPT_TRY(ParseManifest(manifest, manifest_path));
  const std::string hash = KOPT_TRY(ReadPackFile(folder + "/manifest.sha256"));
  if (hash.substr(0, hash.find('\n')) != Sha256Hex(manifest)) {
    return Edited(manifest_path, "the manifest differs from manifest.sha256");
  }

  std::map<std::string, std::string> contents;
  for (const auto& [name, wanted] : pack.files) {
    const std::string path = fmt::format("{}/{}", folder, name);
    std::string bytes = KOPT_TRY(ReadPackFile(path));
    if (Sha256Hex(bytes) != wanted) return Edited(path, "the file differs from its hash");
    contents[name] = std::move(bytes);
  }
  for (PackKernel& kernel : pack.kernels) {
    kernel.replacement.steps.at(0).kernel_text = KernelTextOf(contents.at(kernel.file));
    kernel.cubin = contents.at(kernel.cubin_file);
    if (kernel.replacement.Id() != kernel.id) {
      return Edited(fmt::format("{}/{}", folder, kernel.file),
                    fmt::format("the kernel's text, configuration or key differs from its id "
                                "{:.16} in the manifest",
                                kernel.id));
    }
  }
  pack.folder = folder;
  return pack;
}

Result<Pack> CheckPack(const std::string& folder) {
  Pack pack = KOPT_TRY(ReadPack(folder));
  for (const PackKernel& kernel : pack.kernels) {
    const std::string& text = kernel.replacement.steps.at(0).kernel_text;
    if (const std::string refusal = RefusalOfText(text, kernel.name, pack.triton);
        !refusal.empty()) {
      return Fail(
          ErrorKind::kUsage, "kernel_refused",
          fmt::format("the kernel text is refused by gate 1: {}; the pack isn't used", refusal),
          fmt::format("{}/{}", folder, kernel.file));
    }
  }
  return pack;
}

Json CheckPackAnswer(const std::string& folder) {
  const auto pack = CheckPack(folder);
  Json answer;
  answer["ok"] = pack.has_value();
  answer["reason"] = pack ? "" : pack.error().code;
  answer["message"] = pack ? "" : pack.error().ToString();
  answer["manifest"] = pack ? ManifestOf(*pack) : Json(nullptr);
  return answer;
}

Status MatchEnvironment(const Pack& pack, const PackGpu& gpu, const std::string& torch,
                        const std::string& triton) {
  const auto describe = [](const PackGpu& g) {
    return fmt::format("{} (sm_{}, {} SMs{}{})", g.name, g.compute_capability, g.sm_count,
                       g.mig.empty() ? "" : ", MIG ", g.mig);
  };
  if (pack.gpu != gpu) {
    return Fail(ErrorKind::kMismatch, "wrong_gpu",
                fmt::format("the pack was proven on {} and this is {}; run `kernelopt optimize` "
                            "on this GPU",
                            describe(pack.gpu), describe(gpu)),
                pack.folder);
  }
  if (Major(pack.torch) != Major(torch) || Major(pack.triton) != Major(triton)) {
    return Fail(ErrorKind::kMismatch, "wrong_version",
                fmt::format("the pack was proven with torch {} and triton {} and here are torch "
                            "{} and triton {}; run `kernelopt optimize` with these versions",
                            pack.torch, pack.triton, torch, triton),
                pack.folder);
  }
  return {};
}

}  // namespace kernelopt
