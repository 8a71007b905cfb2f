// Launch records, judge jobs and replacements from any bytes: no crash, and what
// is accepted survives the way to text and back.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "device/judge.h"
#include "device/launch_record.h"
#include "device/replacement.h"

namespace {

template <typename T>
void Try(const kernelopt::Json& json, kernelopt::Result<T> (*convert)(const kernelopt::Json&)) {
  const auto value = convert(json);
  if (!value) return;
  const std::string text = kernelopt::DumpJson(ToJson(*value));
  const auto again = convert(*kernelopt::ParseJson(text, "fuzzer"));
  if (!again || kernelopt::DumpJson(ToJson(*again)) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = kernelopt::ParseJson(text, "fuzzer");
  if (!json) return 0;
  Try(*json, kernelopt::LaunchRecordFromJson);
  Try(*json, kernelopt::LaunchConfigFromJson);
  Try(*json, kernelopt::ReplacementFromJson);
  Try(*json, kernelopt::CheckJobFromJson);
  Try(*json, kernelopt::TimeJobFromJson);
  Try(*json, kernelopt::CheckResultFromJson);
  Try(*json, kernelopt::TimeResultFromJson);
  Try(*json, kernelopt::DeviceFactsFromJson);
  return 0;
}
