#include "workers/model_client.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "proc/framed_child.h"
#include "workers/model_json.h"
#include "workers/python_child.h"

namespace kernelopt {
namespace {

FramedChildOptions ChildOptions(const ModelWorkerOptions& options) {
  FramedChildOptions child;
  child.name = "model worker";
  child.start_limit_ms = options.start_limit_ms;
  child.command = PythonCommand(options.python, "kernelopt.model_worker", options.python_path);
  if (!options.command.empty()) child.command.argv = options.command;
  if (!options.program.empty()) {
    child.command.environment.emplace_back("KERNELOPT_BINARY", options.program);
  }
  return child;
}

// An answer that lacks a field comes from a worker of another release.
template <typename T>
Result<T> AsProtocolError(Result<T> read) {
  if (!read) {
    return Fail(ErrorKind::kInternal, "protocol_error", read.error().message);
  }
  return read;
}

}  // namespace

struct ProcessModelWorker::State {
  // Hello is asked first, so that a missing torch is named as such by every method.
  Result<Json> Call(FramedChild& child, const std::string& method, const Json& params,
                    int64_t limit_ms, const Progress& progress) {
    KOPT_TRY(CheckHello(child.Call("hello", Json::object(), 0), options.python));
    return child.Call(method, params, limit_ms, progress);
  }

  Result<Json> CallFresh(const std::string& method, const Json& params, int64_t limit_ms,
                         const Progress& progress) {
    FramedChild child(ChildOptions(options));
    return Call(child, method, params, limit_ms, progress);
  }

  ModelWorkerOptions options;
  std::unique_ptr<FramedChild> kept;  // has answered hello and nothing else
};

ProcessModelWorker::ProcessModelWorker(ModelWorkerOptions options)
    : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
}

ProcessModelWorker::~ProcessModelWorker() = default;

Result<Json> ProcessModelWorker::Hello() {
  if (state_->kept == nullptr) {
    state_->kept = std::make_unique<FramedChild>(ChildOptions(state_->options));
  }
  auto hello = CheckHello(state_->kept->Call("hello", Json::object(), 0), state_->options.python);
  if (!hello) state_->kept.reset();
  return hello;
}

Status ProcessModelWorker::Capture(const ModelSpec& model, const std::vector<VariantSpec>& variants,
                                   const std::string& folder, const Progress& progress) {
  Json list = Json::array();
  for (const VariantSpec& variant : variants) list.push_back(ToJson(variant));
  KOPT_TRY(Hello());
  const auto child = std::move(state_->kept);
  auto answer = child->Call("capture",
                            Json{{"model", ToJson(model)}, {"variants", list}, {"out_dir", folder}},
                            state_->options.capture_limit_ms, progress);
  if (!answer) {
    Error error = answer.error();
    const CallOutcome outcome = child->outcome();
    if (outcome == CallOutcome::kDied || outcome == CallOutcome::kTimeout) {
      error.kind = ErrorKind::kModel;
      error.where = model.file;
    }
    return std::unexpected(std::move(error));
  }
  const std::string path =
      KOPT_TRY(AsProtocolError(GetString(*answer, "capture", "the model worker's answer")));
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return Fail(ErrorKind::kInternal, "protocol_error",
                "the model worker ended its capture without the file it names", path);
  }
  return {};
}

Result<ModelCheck> ProcessModelWorker::Check(const ModelSpec& model, const VariantSpec& variant,
                                             const std::string& pack, const std::vector<int>& seeds,
                                             const Progress& progress) {
  const Json params = {
      {"model", ToJson(model)}, {"variant", ToJson(variant)}, {"pack", pack}, {"seeds", seeds}};
  return AsProtocolError(ModelCheckFromJson(
      KOPT_TRY(state_->CallFresh("check", params, state_->options.check_limit_ms, progress))));
}

Result<ModelTiming> ProcessModelWorker::Time(const ModelSpec& model, const VariantSpec& variant,
                                             const std::string& pack, int pairs, int blocks,
                                             const Progress& progress) {
  const Json params = {{"model", ToJson(model)},
                       {"variant", ToJson(variant)},
                       {"pack", pack},
                       {"pairs", pairs},
                       {"blocks", blocks}};
  return AsProtocolError(ModelTimingFromJson(
      KOPT_TRY(state_->CallFresh("time", params, state_->options.time_limit_ms, progress))));
}

Result<std::vector<double>> ProcessModelWorker::Noise(int processes, const Progress& progress) {
  return AsProtocolError(NoiseFromJson(KOPT_TRY(state_->CallFresh(
      "noise", Json{{"processes", processes}}, state_->options.noise_limit_ms, progress))));
}

}  // namespace kernelopt
