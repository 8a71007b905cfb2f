#include "workers/compile_cache.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "base/hash.h"

namespace kernelopt {
namespace {

// Raised whenever an entry's meaning changes, so that older ones are not found.
constexpr int kSchema = 1;

constexpr const char* kResult = "result.json";

// The files of an entry: field of the worker's answer, member of the output.
struct EntryFile {
  const char* field;
  std::string CompileOutput::* path;
};
constexpr EntryFile kFiles[] = {{"cubin", &CompileOutput::cubin_path},
                                {"ttir", &CompileOutput::ttir_path},
                                {"ptx", &CompileOutput::ptx_path}};

// The fields that the worker's answer and result.json share.
Result<CompileOutput> ReadFields(const Json& json, const std::string& what) {
  CompileOutput output;
  output.record = KOPT_TRY(LaunchRecordFromJson(*KOPT_TRY(GetObject(json, "record", what))));
  output.binary_hash = KOPT_TRY(GetString(json, "binary_hash", what));
  output.registers = static_cast<int>(KOPT_TRY(GetInt(json, "registers", what)));
  output.spill_bytes = KOPT_TRY(GetInt(json, "spill_bytes", what));
  output.compile_ms = KOPT_TRY(GetInt(json, "compile_ms", what));
  return output;
}

}  // namespace

std::string CompileCache::Key(const CompileRequest& request, const std::string& toolchain) {
  const Json parts = {{"schema", kSchema},
                      {"source", request.source},
                      {"is_ttir", request.is_ttir},
                      {"kernel_name", request.kernel_name},
                      {"config", ToJson(request.config)},
                      {"compute_capability", request.compute_capability},
                      {"expected_hash", request.expected_hash},
                      {"toolchain", toolchain}};
  return Sha256Hex(DumpJson(parts));
}

std::string CompileCache::SourcePath(const std::string& work_folder,
                                     const CompileRequest& request) {
  return work_folder + (request.is_ttir ? "/source.ttir" : "/source.py");
}

std::string CompileCache::EntryFolder(const std::string& key) const {
  return fmt::format("{}/{}/{}", folder_, key.substr(0, 2), key);
}

std::optional<Result<CompileOutput>> CompileCache::Find(const std::string& key) const {
  const std::string folder = EntryFolder(key);
  // Whatever can't be read is made again; that is what a cache is for.
  const auto text = ReadFile(folder + "/" + kResult);
  if (!text) return std::nullopt;
  const auto json = ParseJson(*text, kResult);
  if (!json || !json->is_object()) return std::nullopt;
  if (json->contains("error")) {
    auto message = GetString((*json)["error"], "message", kResult);
    auto where = GetString((*json)["error"], "where", kResult);
    if (!message || !where) return std::nullopt;
    return Fail(ErrorKind::kUsage, "compile_error", *message, *where);
  }
  auto output = ReadFields(*json, kResult);
  const auto hash = GetString(*json, "cubin_sha256", kResult);
  if (!output || !hash) return std::nullopt;
  output->compile_ms = 0;
  for (const EntryFile& file : kFiles) {
    (*output).*file.path = fmt::format("{}/kernel.{}", folder, file.field);
    std::error_code ignored;
    if (!std::filesystem::exists((*output).*file.path, ignored)) return std::nullopt;
  }
  const auto cubin = ReadFile(output->cubin_path);
  if (!cubin || Sha256Hex(*cubin) != *hash) return std::nullopt;
  return *output;
}

void CompileCache::RemoveAbandoned() const {
  namespace fs = std::filesystem;
  const auto newest = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::vector<fs::path> abandoned;
  std::error_code error;
  for (fs::directory_iterator it(folder_ + "/new", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unknown;
    const auto changed = fs::last_write_time(it->path(), unknown);
    if (!unknown && changed < newest) abandoned.push_back(it->path());
  }
  for (const fs::path& path : abandoned) RemoveWorkFolder(path);
}

Result<std::string> CompileCache::MakeWorkFolder(const CompileRequest& request) const {
  KOPT_CHECK_OK(MakeFolder(folder_ + "/new"));
  std::string pattern = folder_ + "/new/XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return std::unexpected(ErrnoError(errno, "not_writable", folder_ + "/new", "create a folder"));
  }
  KOPT_CHECK_OK(WriteFileAtomic(SourcePath(pattern, request), request.source));
  return pattern;
}

Result<CompileOutput> CompileCache::Keep(const std::string& key, const std::string& work_folder,
                                         const Json& answer) const {
  const std::string what = "the compile worker's answer";
  const auto protocol_error = [](std::string message) {
    return Fail(ErrorKind::kInternal, "protocol_error", std::move(message));
  };
  auto output = ReadFields(answer, what);
  if (!output) return protocol_error(output.error().message);
  std::string cubin;
  for (const EntryFile& file : kFiles) {
    const std::string path = fmt::format("{}/kernel.{}", work_folder, file.field);
    const auto said = GetString(answer, file.field, what);
    if (!said) return protocol_error(said.error().message);
    auto bytes = ReadFile(path);
    if (*said != path || !bytes) {
      return protocol_error(
          fmt::format("the compile worker's file '{}' is not where it was "
                      "asked for, {}",
                      *said, path));
    }
    if (file.path == &CompileOutput::cubin_path) cubin = std::move(*bytes);
    (*output).*file.path = fmt::format("{}/kernel.{}", EntryFolder(key), file.field);
  }
  const Json result = {{"cubin_sha256", Sha256Hex(cubin)},   {"record", ToJson(output->record)},
                       {"binary_hash", output->binary_hash}, {"registers", output->registers},
                       {"spill_bytes", output->spill_bytes}, {"compile_ms", output->compile_ms}};
  KOPT_CHECK_OK(MoveIntoPlace(key, work_folder, result));
  return *output;
}

Status CompileCache::KeepFailure(const std::string& key, const std::string& work_folder,
                                 const Error& error) const {
  return MoveIntoPlace(key, work_folder,
                       Json{{"error", Json{{"message", error.message}, {"where", error.where}}}});
}

Status CompileCache::MoveIntoPlace(const std::string& key, const std::string& work_folder,
                                   const Json& result) const {
  KOPT_CHECK_OK(WriteFileAtomic(work_folder + "/" + kResult, DumpJson(result)));
  const std::string entry = EntryFolder(key);
  KOPT_CHECK_OK(MakeFolder(std::filesystem::path(entry).parent_path()));
  std::error_code error;
  std::filesystem::rename(work_folder, entry, error);
  if (!error) return {};
  // Another process was first, or the entry there is damaged.
  if (Find(key)) {
    RemoveWorkFolder(work_folder);
    return {};
  }
  std::filesystem::remove_all(entry, error);
  std::filesystem::rename(work_folder, entry, error);
  if (error) {
    return std::unexpected(
        ErrnoError(error.value(), "not_writable", entry, "keep a compiled kernel"));
  }
  return {};
}

void CompileCache::RemoveWorkFolder(const std::string& work_folder) {
  std::error_code ignored;
  std::filesystem::remove_all(work_folder, ignored);
}

}  // namespace kernelopt
