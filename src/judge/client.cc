#include "judge/client.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

namespace kernelopt {
namespace {

FramedChildOptions ChildOptions(const JudgeClientOptions& options) {
  FramedChildOptions child;
  child.name = "judge";
  child.command.argv = options.command;
  if (!options.gpu.empty()) child.command.environment = {{"CUDA_VISIBLE_DEVICES", options.gpu}};
  return child;
}

/// Errors after which the child is another one, and which one program may have
/// caused.
bool EndsTheChild(const Error& error) {
  return error.code == "sick_device" || error.code == "timeout" || error.code == "died";
}

/// N of "program N".
bool NamedProgram(const Error& error, size_t* program) {
  constexpr std::string_view kPrefix = "program ";
  const std::string_view where = error.where;
  if (!where.starts_with(kPrefix)) return false;
  const char* end = where.data() + where.size();
  return std::from_chars(where.data() + kPrefix.size(), end, *program).ptr == end;
}

}  // namespace

JudgeClient::JudgeClient(JudgeClientOptions options)
    : options_(std::move(options)), child_(ChildOptions(options_)) {}

Result<DeviceFacts> JudgeClient::Facts() {
  return DeviceFactsFromJson(
      KOPT_TRY(child_.Call("facts", Json::object(), options_.setup_limit_ms)));
}

Result<DeviceSpeeds> JudgeClient::Speeds() {
  return DeviceSpeedsFromJson(
      KOPT_TRY(child_.Call("speeds", Json::object(), options_.setup_limit_ms)));
}

Result<Json> JudgeClient::CallJob(const std::string& method, const Json& params, int64_t limit_ms) {
  if (!child_.running()) KOPT_TRY(Facts());
  return child_.Call(method, params, limit_ms);
}

Result<CheckResult> JudgeClient::Check(const CheckJob& job) {
  return CheckResultFromJson(KOPT_TRY(CallJob("check", ToJson(job), job.time_limit_ms)));
}

Result<TimeResult> JudgeClient::TimeOnce(const TimeJob& job) {
  return TimeResultFromJson(KOPT_TRY(CallJob("time", ToJson(job), job.time_limit_ms)));
}

Result<size_t> JudgeClient::FindGuilty(const TimeJob& job, const Error& error) {
  size_t named = 0;
  if (NamedProgram(error, &named) && named < job.programs.size()) return named;
  TimeJob probe = job;
  probe.rounds = 1;
  for (size_t i = 0; i < job.programs.size(); ++i) {
    probe.programs = {job.programs[0]};
    if (i > 0) probe.programs.push_back(job.programs[i]);
    auto result = TimeOnce(probe);
    if (result) continue;
    if (!EndsTheChild(result.error())) return std::unexpected(std::move(result).error());
    return i;
  }
  return std::unexpected(error);
}

Result<TimeResult> JudgeClient::Time(const TimeJob& job) {
  TimeJob rest = job;
  std::vector<size_t> places(job.programs.size());  // in `job`, of each program of `rest`
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  TimeResult all;
  all.samples.resize(job.programs.size());
  all.failures.resize(job.programs.size());
  for (;;) {
    auto result = TimeOnce(rest);
    if (result) {
      if (result->samples.size() != places.size() || result->failures.size() != places.size()) {
        return Fail(ErrorKind::kInternal, "protocol_error",
                    "the judge answered for another number of programs than it was given");
      }
      for (size_t i = 0; i < places.size(); ++i) {
        all.samples[places[i]] = std::move(result->samples[i]);
        all.failures[places[i]] = std::move(result->failures[i]);
      }
      return all;
    }
    Error error = std::move(result).error();
    if (!EndsTheChild(error)) return std::unexpected(std::move(error));
    const size_t guilty = KOPT_TRY(FindGuilty(rest, error));
    // Without its yardstick no time means anything.
    if (guilty == 0) return std::unexpected(std::move(error));
    all.failures[places[guilty]] = error.code;
    rest.programs.erase(rest.programs.begin() + static_cast<std::ptrdiff_t>(guilty));
    places.erase(places.begin() + static_cast<std::ptrdiff_t>(guilty));
  }
}

Status JudgeClient::Release() {
  // A child that does not run holds nothing.
  if (child_.running()) {
    KOPT_TRY(child_.Call("release", Json::object(), options_.setup_limit_ms));
  }
  return {};
}

}  // namespace kernelopt
