// `kernelopt judge`: the child process that runs and measures cubins. It
// answers the methods of docs/protocol.md on its standard streams: facts,
// speeds, check, time, release. The GPU is opened by the first call that needs
// it. After an answer "sick_device" the child is useless and its parent ends it
// (FramedChild does).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "device/judge.h"
#include "device/kernel_runtime.h"

namespace kernelopt {

class JudgeServer {
 public:
  /// A runtime and, where it can measure them, its speeds.
  struct Device {
    std::unique_ptr<KernelRuntime> runtime;
    std::function<Result<DeviceSpeeds>()> speeds;
  };
  using OpenDevice = std::function<Result<Device>()>;

  explicit JudgeServer(OpenDevice open) : open_(std::move(open)) {}

  /// One request. An unknown method is an error.
  Result<Json> Dispatch(const std::string& method, const Json& params);

 private:
  Result<Device*> Opened();

  OpenDevice open_;
  Device device_;
};

/// Launches each program of a time job (a JSON file) once, in order, for a
/// profiler that watches this process.
Status RunReplay(KernelRuntime& runtime, const std::string& path);

/// `kernelopt judge`: serves until the end of its input. `kernelopt judge
/// --replay FILE`: RunReplay on the GPU. The arguments are those after "judge".
/// Gives the exit code.
int JudgeMain(int argc, char** argv);

}  // namespace kernelopt
