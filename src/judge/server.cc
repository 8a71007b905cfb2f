#include "judge/server.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "device/runner.h"
#include "device/site_memory.h"
#include "device/timer.h"
#include "judge/cuda_runtime.h"
#include "proc/frame_server.h"

namespace kernelopt {
namespace {

Result<JudgeServer::Device> OpenCuda() {
  std::unique_ptr<CudaRuntime> runtime = KOPT_TRY(CudaRuntime::Create());
  JudgeServer::Device device;
  device.speeds = [cuda = runtime.get()] { return cuda->MeasureSpeeds(); };
  device.runtime = std::move(runtime);
  return device;
}

/// A bad field in a job is the job's fault.
template <typename T>
Result<T> AsJob(Result<T> job) {
  if (job) return job;
  Error error = std::move(job).error();
  error.code = "job_error";
  return std::unexpected(std::move(error));
}

}  // namespace

Result<JudgeServer::Device*> JudgeServer::Opened() {
  if (device_.runtime == nullptr) device_ = KOPT_TRY(open_());
  return &device_;
}

Result<Json> JudgeServer::Dispatch(const std::string& method, const Json& params) {
  if (method == "facts") return ToJson(KOPT_TRY(KOPT_TRY(Opened())->runtime->Facts()));
  if (method == "speeds") return ToJson(KOPT_TRY(KOPT_TRY(Opened())->speeds()));
  if (method == "check") {
    const CheckJob job = KOPT_TRY(AsJob(CheckJobFromJson(params)));
    return ToJson(KOPT_TRY(RunCheck(*KOPT_TRY(Opened())->runtime, job)));
  }
  if (method == "time") {
    const TimeJob job = KOPT_TRY(AsJob(TimeJobFromJson(params)));
    return ToJson(KOPT_TRY(RunTime(*KOPT_TRY(Opened())->runtime, job)));
  }
  if (method == "release") {
    device_ = {};
    return Json::object();
  }
  return UnknownMethod(method);
}

Status RunReplay(KernelRuntime& runtime, const std::string& path) {
  const std::string text = KOPT_TRY(ReadFile(path));
  const TimeJob job = KOPT_TRY(TimeJobFromJson(KOPT_TRY(ParseJson(text, path))));
  const std::unique_ptr<SiteMemory> memory =
      KOPT_TRY(SiteMemory::Create(runtime, job.site, Placement::kMiddle));
  for (const Program& program : job.programs) {
    KOPT_CHECK_OK(memory->Prepare(job.data, 0));
    KOPT_CHECK_OK(runtime.FlushL2());
    if (job.state == CacheState::kAsInModel) {
      std::vector<Region> regions;
      for (int storage : job.touched) regions.push_back(memory->storage(storage));
      KOPT_CHECK_OK(runtime.Touch(regions));
    }
    const int kernel = KOPT_TRY(runtime.Load(program));
    Status status = runtime.Launch({kernel, memory->Arguments()});
    if (status) status = runtime.Synchronize();
    runtime.Unload(kernel);
    KOPT_CHECK_OK(status);
  }
  return {};
}

int JudgeMain(int argc, char** argv) {
  if (argc == 0) {
    JudgeServer server(OpenCuda);
    return ServeStandardStreams(Json::object(), [&](const std::string& method, const Json& params) {
      return server.Dispatch(method, params);
    });
  }
  Status status = Fail(ErrorKind::kUsage, "usage", "wanted no argument or --replay FILE");
  if (argc == 2 && std::string_view(argv[0]) == "--replay") {
    auto runtime = CudaRuntime::Create();
    status = runtime ? RunReplay(**runtime, argv[1])
                     : Status(std::unexpected(std::move(runtime).error()));
  }
  if (status) return 0;
  std::fprintf(stderr, "kernelopt judge: %s\n", status.error().ToString().c_str());
  return static_cast<int>(status.error().kind);
}

}  // namespace kernelopt
