// A judge that remembers: every answer goes into the run's store, and a job
// that was answered before is answered from there.
//
// So a run that was killed and goes on decides from the same samples, and
// ends with the same verdicts and the same winner. A job is named by all of
// its content: what the cubins' files hold, the site, the data, the rule, and
// the GPU. Errors are not kept: nothing was learned. Once an answer could not be
// kept (a full disk), each job ends with that error, and so must the step.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "device/judge.h"
#include "store/store.h"

namespace kernelopt {

class RecordingJudge : public Judge {
 public:
  /// `gpu`: the id that measurements are comparable by; `versions`: of triton
  /// and of this program. With `cancelled` true a new job ends at once with
  /// kInterrupted.
  RecordingJudge(Judge& judge, Store& store, std::string gpu, std::string versions,
                 std::function<bool()> cancelled);

  /// The kernel that the next jobs are about, for the record.
  void SetKernel(std::string key) { kernel_ = std::move(key); }
  int reused() const { return reused_; }
  /// Ends every further job that has no recorded answer with this error.
  void Refuse(const Status& status) { kept_ = status; }
  /// Why an answer could not be kept. What was decided since then is not to be recorded.
  const Status& kept() const { return kept_; }

  Result<DeviceFacts> Facts() override { return judge_.Facts(); }
  Result<DeviceSpeeds> Speeds() override { return judge_.Speeds(); }
  Result<CheckResult> Check(const CheckJob& job) override;
  Result<TimeResult> Time(const TimeJob& job) override;
  Status Release() override { return judge_.Release(); }

 private:
  std::string ContentOf(const std::string& path);
  std::string NameJob(Json job);
  MeasurementKey KeyOf(const std::string& name, std::string state) const;
  Result<std::optional<Json>> Lookup(const MeasurementKey& key);
  Status Keep(const MeasurementKey& key, const Json& answer);

  Judge& judge_;
  Store& store_;
  std::string gpu_, versions_, kernel_;
  std::function<bool()> cancelled_;
  std::map<std::string, std::string> contents_;  ///< path -> SHA-256 of the file
  int reused_ = 0;
  Status kept_;
};

}  // namespace kernelopt
