// The judge as its users see it: a child process `kernelopt judge`, started by
// the first call, and again by the next call after it was killed, ended or got
// sick. One a GPU.
//
//   JudgeClient judge({});
//   Result<CheckResult> result = judge.Check(job);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/judge.h"
#include "proc/framed_child.h"

namespace kernelopt {

struct JudgeClientOptions {
  /// The child's command line.
  std::vector<std::string> command = {"/proc/self/exe", "judge"};
  std::string gpu{};  ///< UUID or index for CUDA_VISIBLE_DEVICES, empty = as it is
  /// Of facts, speeds and release, and of opening the GPU before a job; a job
  /// brings its own limit.
  int64_t setup_limit_ms = 120000;
};

class JudgeClient : public Judge {
 public:
  explicit JudgeClient(JudgeClientOptions options);

  Result<DeviceFacts> Facts() override;
  Result<DeviceSpeeds> Speeds() override;
  Result<CheckResult> Check(const CheckJob& job) override;
  /// A program that makes the device sick, hangs or ends the child is found by
  /// itself and charged alone; the others are timed again together without it.
  Result<TimeResult> Time(const TimeJob& job) override;
  Status Release() override;

  int starts() const { return child_.starts(); }

 private:
  /// A job's call, with the GPU opened before its time limit begins.
  Result<Json> CallJob(const std::string& method, const Json& params, int64_t limit_ms);
  Result<TimeResult> TimeOnce(const TimeJob& job);
  /// Which of `programs` is to blame for `error`, by its place in the list; 0 is
  /// the baseline. Nothing when each works beside the baseline.
  Result<size_t> FindGuilty(const TimeJob& job, const Error& error);

  JudgeClientOptions options_;
  FramedChild child_;
};

}  // namespace kernelopt
