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
  // Starts the child if there is none, without waiting for it.
  void Begin(std::unique_ptr<FramedChild>& child) {
    if (child != nullptr) return;
    child = std::make_unique<FramedChild>(ChildOptions(options));
    child->Begin("prepare", Json::object(), options.start_limit_ms);
  }

  // Hello is asked first, so that a missing torch is named as such by every method.
  Result<Json> Call(std::unique_ptr<FramedChild>& child, const std::string& method,
                    const Json& params, int64_t limit_ms, const Progress& progress) {
    if (child == nullptr) child = std::make_unique<FramedChild>(ChildOptions(options));
    FramedChild* one = child.get();
    if (one->busy()) {
      while (!one->done()) FramedChild::WaitAny(std::span(&one, 1));
      one->Discard();  // whatever it could not do is said by hello or the method
    }
    KOPT_TRY(CheckHello(one->Call("hello", Json::object(), 0), options.python));
    return one->Call(method, params, limit_ms, progress);
  }

  ModelWorkerOptions options;
  std::unique_ptr<FramedChild> kept;     // has answered `device` and nothing else
  std::unique_ptr<FramedChild> checker;  // of the next Check
  std::unique_ptr<FramedChild> timer;    // forks what Noise and Time measure
};

ProcessModelWorker::ProcessModelWorker(ModelWorkerOptions options)
    : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
}

ProcessModelWorker::~ProcessModelWorker() = default;

Result<Json> ProcessModelWorker::Hello() {
  auto facts =
      state_->Call(state_->kept, "device", Json::object(), state_->options.start_limit_ms, {});
  if (!facts) {
    state_->kept.reset();
    return facts;
  }
  Json hello = KOPT_TRY(state_->kept->Call("hello", Json::object(), 0));
  hello.update(*facts);
  return hello;
}

void ProcessModelWorker::Prepare() {
  state_->Begin(state_->checker);
  state_->Begin(state_->timer);
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
    // Nothing but the model's code ends the worker or its pipes here.
    if (outcome == CallOutcome::kDied || outcome == CallOutcome::kTimeout ||
        outcome == CallOutcome::kProtocolError) {
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
  auto child = std::move(state_->checker);
  return AsProtocolError(ModelCheckFromJson(
      KOPT_TRY(state_->Call(child, "check", params, state_->options.check_limit_ms, progress))));
}

Result<std::vector<ModelTiming>> ProcessModelWorker::Time(const ModelSpec& model,
                                                          const VariantSpec& variant,
                                                          const std::string& pack, int measurements,
                                                          int pairs, int blocks,
                                                          const Progress& progress) {
  const Json params = {{"model", ToJson(model)}, {"variant", ToJson(variant)},
                       {"pack", pack},           {"measurements", measurements},
                       {"pairs", pairs},         {"blocks", blocks}};
  const Json answer = KOPT_TRY(
      state_->Call(state_->timer, "time", params, state_->options.time_limit_ms, progress));
  const Json* list =
      KOPT_TRY(AsProtocolError(GetArray(answer, "timings", "the model worker's answer")));
  if (list->size() != static_cast<size_t>(measurements)) {
    return Fail(ErrorKind::kInternal, "protocol_error",
                fmt::format("the model worker measured {} times where {} were asked for",
                            list->size(), measurements));
  }
  std::vector<ModelTiming> timings;
  for (const Json& timing : *list) {
    timings.push_back(KOPT_TRY(AsProtocolError(ModelTimingFromJson(timing))));
  }
  return timings;
}

Result<std::vector<double>> ProcessModelWorker::Noise(int processes, const Progress& progress) {
  return AsProtocolError(
      NoiseFromJson(KOPT_TRY(state_->Call(state_->timer, "noise", Json{{"processes", processes}},
                                          state_->options.noise_limit_ms, progress))));
}

}  // namespace kernelopt
