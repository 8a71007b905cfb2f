#include "pipeline/recording_judge.h"

#include <nlohmann/json.hpp>

#include "base/fail_point.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace kernelopt {

RecordingJudge::RecordingJudge(Judge& judge, Store& store, std::string gpu, std::string versions,
                               std::function<bool()> cancelled)
    : judge_(judge),
      store_(store),
      gpu_(std::move(gpu)),
      versions_(std::move(versions)),
      cancelled_(std::move(cancelled)) {}

/// A path says where, not what; the same file lies elsewhere for another user.
std::string RecordingJudge::ContentOf(const std::string& path) {
  if (path.empty()) return path;
  auto known = contents_.find(path);
  if (known != contents_.end()) return known->second;
  auto bytes = ReadFile(path);
  return contents_[path] = bytes ? Sha256Hex(*bytes) : path;
}

std::string RecordingJudge::NameJob(Json job) {
  std::function<void(Json&)> replace = [&](Json& value) {
    if (value.is_array()) {
      for (Json& item : value) replace(item);
    } else if (value.is_object()) {
      value.erase("ttir_path");  // the cubin says what is run
      for (auto& [key, item] : value.items()) {
        if ((key == "cubin_path" || key == "contents_path") && item.is_string()) {
          item = ContentOf(item.get<std::string>());
        } else {
          replace(item);
        }
      }
    }
  };
  replace(job);
  return "job:" + Sha256Hex(DumpJson(job));
}

MeasurementKey RecordingJudge::KeyOf(const std::string& name, std::string state) const {
  MeasurementKey key;
  key.subject = name;
  key.gpu = gpu_;
  key.versions = versions_;
  key.state = std::move(state);
  key.purpose = "judge";
  return key;
}

Result<std::optional<Json>> RecordingJudge::Lookup(const MeasurementKey& key) {
  auto known = KOPT_TRY(store_.FindMeasurement(key));
  if (!known) return std::nullopt;
  Json answer = KOPT_TRY(ParseJson(known->detail, "a recorded answer of the judge"));
  ++reused_;
  return std::optional<Json>(std::move(answer));
}

Status RecordingJudge::Keep(const MeasurementKey& key, const Json& answer) {
  FailPoint("judge.answer");
  MeasurementRecord record;
  record.key = key;
  record.kernel = kernel_;
  record.batch = key.subject;
  record.detail = DumpJson(answer);
  return kept_ = store_.RecordMeasurement(std::move(record));
}

Result<CheckResult> RecordingJudge::Check(const CheckJob& job) {
  MeasurementKey key = KeyOf(NameJob(ToJson(job)), "check");
  if (auto known = KOPT_TRY(Lookup(key))) return CheckResultFromJson(*known);
  KOPT_CHECK_OK(kept_);
  if (cancelled_ && cancelled_()) {
    return Fail(ErrorKind::kInterrupted, "interrupted", "stopped as asked");
  }
  CheckResult result = KOPT_TRY(judge_.Check(job));
  KOPT_CHECK_OK(Keep(key, ToJson(result)));
  return result;
}

Result<TimeResult> RecordingJudge::Time(const TimeJob& job) {
  MeasurementKey key =
      KeyOf(NameJob(ToJson(job)), job.state == CacheState::kCold ? "cold" : "as_in_model");
  if (auto known = KOPT_TRY(Lookup(key))) return TimeResultFromJson(*known);
  KOPT_CHECK_OK(kept_);
  if (cancelled_ && cancelled_()) {
    return Fail(ErrorKind::kInterrupted, "interrupted", "stopped as asked");
  }
  TimeResult result = KOPT_TRY(judge_.Time(job));
  KOPT_CHECK_OK(Keep(key, ToJson(result)));
  return result;
}

}  // namespace kernelopt
