#include "device/launch_record.h"

#include <fmt/format.h>

#include "device/json_fields.h"

namespace kernelopt {
namespace {

constexpr std::pair<LaunchParameter::Kind, std::string_view> kKinds[] = {
    {LaunchParameter::Kind::kPointer, "pointer"},
    {LaunchParameter::Kind::kInt, "int"},
    {LaunchParameter::Kind::kFloat, "float"},
    {LaunchParameter::Kind::kScratch, "scratch"},
};

Result<LaunchParameter::Kind> KindFromString(std::string_view name) {
  for (const auto& [kind, text] : kKinds) {
    if (text == name) return kind;
  }
  return Fail(ErrorKind::kUsage, "bad_field",
              fmt::format("launch record: the parameter kind '{}' is unknown, wanted pointer, "
                          "int, float or scratch",
                          name));
}

Json ToJson(const LaunchParameter& parameter) {
  Json json;
  for (const auto& [kind, text] : kKinds) {
    if (kind == parameter.kind) json["kind"] = text;
  }
  json["size"] = parameter.size;
  json["argument"] = parameter.argument;
  json["scratch_bytes"] = parameter.scratch_bytes;
  json["scratch_alignment"] = parameter.scratch_alignment;
  return json;
}

Result<LaunchParameter> ParameterFromJson(const Json& json) {
  LaunchParameter parameter;
  FieldReader in(json, "launch record");
  in.ReadName("kind", &parameter.kind, KindFromString);
  in.Read("size", &parameter.size);
  in.Read("argument", &parameter.argument);
  if (parameter.kind == LaunchParameter::Kind::kScratch || json.contains("scratch_bytes")) {
    in.Read("scratch_bytes", &parameter.scratch_bytes);
    in.Read("scratch_alignment", &parameter.scratch_alignment);
  }
  KOPT_CHECK_OK(in.Done());
  return parameter;
}

}  // namespace

Json ToJson(const LaunchRecord& record) {
  Json parameters = Json::array();
  for (const LaunchParameter& parameter : record.parameters)
    parameters.push_back(ToJson(parameter));
  return {{"entry", record.entry},
          {"parameters", std::move(parameters)},
          {"threads", record.threads},
          {"num_ctas", record.num_ctas},
          {"cluster", record.cluster},
          {"shared_bytes", record.shared_bytes},
          {"cooperative", record.cooperative}};
}

Result<LaunchRecord> LaunchRecordFromJson(const Json& json) {
  LaunchRecord record;
  FieldReader in(json, "launch record");
  in.Read("entry", &record.entry);
  in.Read("parameters", &record.parameters, ParameterFromJson);
  in.Read("threads", &record.threads);
  in.Read("num_ctas", &record.num_ctas);
  in.Read("cluster", &record.cluster);
  in.Read("shared_bytes", &record.shared_bytes);
  in.Read("cooperative", &record.cooperative);
  KOPT_CHECK_OK(in.Done());
  return record;
}

}  // namespace kernelopt
