#include "pipeline/run.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "program/program.h"

namespace kernelopt {
namespace {

/// Holds a store to the options: a new one takes them, an old one must have them.
Result<bool> Adopt(Store& store, const RunOptions& options, const std::string& identity) {
  auto known = KOPT_TRY(store.Fact("identity"));
  std::string wanted = DumpJson(Json(identity));
  if (known && *known != wanted) return false;
  Batch batch;
  if (!known) batch.facts.emplace_back("identity", wanted);
  batch.facts.emplace_back("options", DumpJson(ToJson(options)));  // the budget may be another
  KOPT_CHECK_OK(store.Record(std::move(batch)));
  return true;
}

}  // namespace

std::string ModelStem(const RunOptions& options) {
  std::filesystem::path path = options.model.empty() ? options.recording : options.model;
  if (path.filename().empty()) path = path.parent_path();  // "folder/"
  std::string stem = options.model.empty() ? path.filename().string() : path.stem().string();
  return stem.empty() ? "model" : stem;
}

std::string RunIdentity(const RunOptions& options, const std::string& model_sha256) {
  Json json = ToJson(options);
  json.erase("budget_s");
  json["model_sha256"] = model_sha256;
  return Sha256Hex(DumpJson(json));
}

Result<std::unique_ptr<Store>> OpenRun(const RunOptions& options, const std::string& folder) {
  std::string file = options.model.empty() ? options.recording + "/capture.json" : options.model;
  std::string identity = RunIdentity(options, Sha256Hex(KOPT_TRY(ReadFile(file))));
  if (!folder.empty()) {
    auto store = KOPT_TRY(Store::Open(folder, StoreMode::kCreate));
    if (!KOPT_TRY(Adopt(*store, options, identity))) {
      return Fail(ErrorKind::kUsage, "other_run",
                  "holds a run of another model or with other options; give another --out, or "
                  "remove it",
                  folder);
    }
    return store;
  }
  for (int number = 1;; ++number) {
    std::string name =
        ModelStem(options) + (number == 1 ? "" : fmt::format("-{}", number)) + ".kopt-run";
    auto store = KOPT_TRY(Store::Open(name, StoreMode::kCreate));
    if (KOPT_TRY(Adopt(*store, options, identity))) return store;
  }
}

Result<OpenedRun> ReopenRun(const std::string& folder, StoreMode mode) {
  OpenedRun run;
  run.store = KOPT_TRY(Store::Open(folder, mode));
  auto text = KOPT_TRY(run.store->Fact("options"));
  if (!text) {
    return Fail(ErrorKind::kUsage, "no_such_run",
                "holds a run that never began; start it again with `kernelopt optimize`", folder);
  }
  Json json = KOPT_TRY(ParseJson(*text, folder));
  if (mode == StoreMode::kRead) {
    // Only shown: the model may be gone by now.
    run.options.model = json.value("model", "");
    run.options.entry = json.value("entry", "");
    run.options.recording = json.value("recording", "");
    return run;
  }
  // The folder may have come from another machine, with its copy of the recording.
  const std::string kept = RunPaths(folder).Capture();
  if (!json.value("recording", "").empty() && PathExists(kept + "/capture.json"))
    json["recording"] = kept;
  run.options = KOPT_TRY(RunOptionsFromJson(json));
  return run;
}

Status TakeModel(Store& store, RunOptions* options, const std::string& model) {
  if (options->recording.empty()) {
    return Fail(ErrorKind::kUsage, "bad_option",
                "--model is for runs on a recording; this one has its model", store.Folder());
  }
  const std::string sha256 = Sha256Hex(KOPT_TRY(ReadFile(model)));
  const Capture capture = KOPT_TRY(ReadCapture(options->recording));
  if (capture.model_sha256 != sha256) {
    return Fail(ErrorKind::kUsage, "other_model",
                fmt::format("is not the file that was recorded ({}, SHA-256 {}...); give that one, "
                            "or begin a run of its own with `kernelopt optimize`",
                            capture.model_file, capture.model_sha256.substr(0, 16)),
                model);
  }
  options->model = model;
  options->recording.clear();
  options->entry = capture.entry;
  Batch batch;
  batch.facts.emplace_back("identity", DumpJson(Json(RunIdentity(*options, sha256))));
  batch.facts.emplace_back("options", DumpJson(ToJson(*options)));
  return store.Record(std::move(batch));
}

}  // namespace kernelopt
