#include "device/judge.h"

#include <fmt/format.h>

#include "device/json_fields.h"

namespace kernelopt {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int size;
};
constexpr DTypeRow kDTypes[] = {
    {DType::kFloat16, "fp16", 2}, {DType::kBFloat16, "bf16", 2}, {DType::kFloat32, "fp32", 4},
    {DType::kFloat64, "fp64", 8}, {DType::kInt8, "i8", 1},       {DType::kUInt8, "u8", 1},
    {DType::kInt16, "i16", 2},    {DType::kInt32, "i32", 4},     {DType::kInt64, "i64", 8},
    {DType::kBool, "i1", 1},
};

constexpr std::string_view kFamilies[] = {"uniform", "normal",      "normal_shifted", "large",
                                          "small",   "log_uniform", "ties",           "cancelling",
                                          "special", "captured"};
constexpr std::string_view kRoles[] = {"data", "poison", "zeros"};
constexpr std::string_view kArgumentKinds[] = {"storage", "int", "float"};
constexpr std::string_view kStates[] = {"cold", "as_in_model"};

/// The value whose name is at the same place of `names`.
template <typename T, size_t N>
Result<T> FromName(const std::string_view (&names)[N], std::string_view name,
                   std::string_view what) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<T>(i);
  }
  return Fail(
      ErrorKind::kUsage, "bad_field",
      fmt::format("the {} '{}' is unknown, wanted one of {}", what, name, fmt::join(names, ", ")));
}

Result<StorageRole> RoleFromString(std::string_view name) {
  return FromName<StorageRole>(kRoles, name, "storage role");
}
Result<ArgumentSpec::Kind> ArgumentKindFromString(std::string_view name) {
  return FromName<ArgumentSpec::Kind>(kArgumentKinds, name, "argument kind");
}
Result<CacheState> StateFromString(std::string_view name) {
  return FromName<CacheState>(kStates, name, "cache state");
}

Json ToJson(const StorageSpec& spec);
Json ToJson(const ArgumentSpec& argument);
Json ToJson(const Program& program);
Json ToJson(const DataSet& data);
Json ToJson(const DataSetResult& set);

template <typename T>
Json ListToJson(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

Json ToJson(const StorageSpec& spec) {
  return {{"bytes", spec.bytes},
          {"dtype", ToString(spec.dtype)},
          {"role", kRoles[static_cast<int>(spec.role)]},
          {"written", spec.written},
          {"int_low", spec.int_low},
          {"int_high", spec.int_high},
          {"has_envelope", spec.has_envelope},
          {"float_low", NumberToJson(spec.float_low)},
          {"float_high", NumberToJson(spec.float_high)},
          {"is_weight", spec.is_weight},
          {"contents_path", spec.contents_path}};
}

Result<StorageSpec> StorageFromJson(const Json& json) {
  StorageSpec spec;
  FieldReader in(json, "storage");
  in.Read("bytes", &spec.bytes);
  in.ReadName("dtype", &spec.dtype, DTypeFromTriton);
  in.ReadName("role", &spec.role, RoleFromString);
  in.Read("written", &spec.written);
  in.Read("int_low", &spec.int_low);
  in.Read("int_high", &spec.int_high);
  in.Read("has_envelope", &spec.has_envelope);
  in.Read("float_low", &spec.float_low);
  in.Read("float_high", &spec.float_high);
  in.Read("is_weight", &spec.is_weight);
  in.Read("contents_path", &spec.contents_path);
  KOPT_CHECK_OK(in.Done());
  return spec;
}

Json ToJson(const ArgumentSpec& argument) {
  return {{"kind", kArgumentKinds[static_cast<int>(argument.kind)]},
          {"storage", argument.storage},
          {"byte_offset", argument.byte_offset},
          {"int_value", argument.int_value},
          {"float_value", NumberToJson(argument.float_value)}};
}

Result<ArgumentSpec> ArgumentFromJson(const Json& json) {
  ArgumentSpec argument;
  FieldReader in(json, "argument");
  in.ReadName("kind", &argument.kind, ArgumentKindFromString);
  in.Read("storage", &argument.storage);
  in.Read("byte_offset", &argument.byte_offset);
  in.Read("int_value", &argument.int_value);
  in.Read("float_value", &argument.float_value);
  KOPT_CHECK_OK(in.Done());
  return argument;
}

Json ToJson(const Site& site) {
  return {{"name", site.name},
          {"storages", ListToJson(site.storages)},
          {"arguments", ListToJson(site.arguments)}};
}

Result<Site> SiteFromJson(const Json& json) {
  Site site;
  FieldReader in(json, "site");
  in.Read("name", &site.name);
  in.Read("storages", &site.storages, StorageFromJson);
  in.Read("arguments", &site.arguments, ArgumentFromJson);
  KOPT_CHECK_OK(in.Done());
  return site;
}

Json ToJson(const Program& program) {
  Json json = {{"cubin_path", program.cubin_path},
               {"record", kernelopt::ToJson(program.record)},
               {"grid", program.grid}};
  if (!program.ttir_path.empty()) json["ttir_path"] = program.ttir_path;
  return json;
}

Result<Program> ProgramFromJson(const Json& json) {
  Program program;
  FieldReader in(json, "program");
  in.Read("cubin_path", &program.cubin_path);
  in.Read("record", &program.record, LaunchRecordFromJson);
  in.Read("grid", &program.grid);
  if (json.contains("ttir_path")) in.Read("ttir_path", &program.ttir_path);
  KOPT_CHECK_OK(in.Done());
  return program;
}

Json ToJson(const DataSet& data) {
  return {
      {"family", ToString(data.family)}, {"seed", data.seed}, {"in_envelope", data.in_envelope}};
}

Result<DataSet> DataSetFromJson(const Json& json) {
  DataSet data;
  FieldReader in(json, "data set");
  in.ReadName("family", &data.family, DataFamilyFromString);
  in.Read("seed", &data.seed);
  in.Read("in_envelope", &data.in_envelope);
  KOPT_CHECK_OK(in.Done());
  return data;
}

Json ToJson(const ErrorRule& rule) {
  return {
      {"rms_factor", NumberToJson(rule.rms_factor)}, {"rms_slack", NumberToJson(rule.rms_slack)},
      {"max_factor", NumberToJson(rule.max_factor)}, {"max_slack", NumberToJson(rule.max_slack)},
      {"rms_floor", NumberToJson(rule.rms_floor)},   {"max_floor", NumberToJson(rule.max_floor)},
      {"max_rms", NumberToJson(rule.max_rms)},       {"max_z", NumberToJson(rule.max_z)},
      {"own_factor", NumberToJson(rule.own_factor)}, {"most_z", NumberToJson(rule.most_z)},
      {"perturbations", rule.perturbations},         {"bitwise", rule.bitwise}};
}

Result<ErrorRule> RuleFromJson(const Json& json) {
  ErrorRule rule;
  FieldReader in(json, "error rule");
  in.Read("rms_factor", &rule.rms_factor);
  in.Read("rms_slack", &rule.rms_slack);
  in.Read("max_factor", &rule.max_factor);
  in.Read("max_slack", &rule.max_slack);
  in.Read("rms_floor", &rule.rms_floor);
  in.Read("max_floor", &rule.max_floor);
  in.Read("max_rms", &rule.max_rms);
  in.Read("max_z", &rule.max_z);
  in.Read("own_factor", &rule.own_factor);
  in.Read("most_z", &rule.most_z);
  in.Read("perturbations", &rule.perturbations);
  in.Read("bitwise", &rule.bitwise);
  KOPT_CHECK_OK(in.Done());
  return rule;
}

Json ToJson(const DataSetResult& set) {
  return {{"data", ToJson(set.data)},
          {"counted", set.counted},
          {"bitwise_equal", set.bitwise_equal},
          {"max_z", NumberToJson(set.max_z)},
          {"rms_z", NumberToJson(set.rms_z)},
          {"own_max_z", NumberToJson(set.own_max_z)},
          {"own_rms_z", NumberToJson(set.own_rms_z)},
          {"elements", set.elements},
          {"aside", set.aside},
          {"checksums", set.checksums}};
}

Result<DataSetResult> SetResultFromJson(const Json& json) {
  DataSetResult set;
  FieldReader in(json, "data set result");
  in.Read("data", &set.data, DataSetFromJson);
  in.Read("counted", &set.counted);
  in.Read("bitwise_equal", &set.bitwise_equal);
  in.Read("max_z", &set.max_z);
  in.Read("rms_z", &set.rms_z);
  in.Read("own_max_z", &set.own_max_z);
  in.Read("own_rms_z", &set.own_rms_z);
  in.Read("elements", &set.elements);
  in.Read("aside", &set.aside);
  in.Read("checksums", &set.checksums);
  KOPT_CHECK_OK(in.Done());
  return set;
}

}  // namespace

Result<DType> DTypeFromTriton(std::string_view name) {
  std::string_view element = name;
  if (element.starts_with('*')) element.remove_prefix(1);
  if (element.starts_with('k')) element.remove_prefix(1);  // pointer to constant data
  for (const DTypeRow& row : kDTypes) {
    if (row.name == element) return row.dtype;
  }
  return Fail(ErrorKind::kUsage, "bad_dtype",
              fmt::format("the type '{}' is not supported by the judge", name));
}

std::string_view ToString(DType dtype) {
  return kDTypes[static_cast<int>(dtype)].name;
}

int SizeOf(DType dtype) {
  return kDTypes[static_cast<int>(dtype)].size;
}

std::string_view ToString(DataFamily family) {
  return kFamilies[static_cast<int>(family)];
}

Result<DataFamily> DataFamilyFromString(std::string_view name) {
  return FromName<DataFamily>(kFamilies, name, "data family");
}

Json ToJson(const DeviceFacts& facts) {
  return {{"name", facts.name},
          {"uuid", facts.uuid},
          {"mig", facts.mig},
          {"driver", facts.driver},
          {"compute_capability", facts.compute_capability},
          {"sm_count", facts.sm_count},
          {"l2_bytes", facts.l2_bytes},
          {"memory_bytes", facts.memory_bytes},
          {"shared_bytes_per_block", facts.shared_bytes_per_block}};
}

Result<DeviceFacts> DeviceFactsFromJson(const Json& json) {
  DeviceFacts facts;
  FieldReader in(json, "device facts");
  in.Read("name", &facts.name);
  in.Read("uuid", &facts.uuid);
  in.Read("mig", &facts.mig);
  in.Read("driver", &facts.driver);
  in.Read("compute_capability", &facts.compute_capability);
  in.Read("sm_count", &facts.sm_count);
  in.Read("l2_bytes", &facts.l2_bytes);
  in.Read("memory_bytes", &facts.memory_bytes);
  in.Read("shared_bytes_per_block", &facts.shared_bytes_per_block);
  KOPT_CHECK_OK(in.Done());
  return facts;
}

Json ToJson(const DeviceSpeeds& speeds) {
  return {{"dram_gb_s", NumberToJson(speeds.dram_gb_s)},
          {"l2_gb_s", NumberToJson(speeds.l2_gb_s)},
          {"empty_kernel_us", NumberToJson(speeds.empty_kernel_us)}};
}

Result<DeviceSpeeds> DeviceSpeedsFromJson(const Json& json) {
  DeviceSpeeds speeds;
  FieldReader in(json, "device speeds");
  in.Read("dram_gb_s", &speeds.dram_gb_s);
  in.Read("l2_gb_s", &speeds.l2_gb_s);
  in.Read("empty_kernel_us", &speeds.empty_kernel_us);
  KOPT_CHECK_OK(in.Done());
  return speeds;
}

Json ToJson(const CheckJob& job) {
  std::vector<Program> twin;  // none or one
  if (job.twin) twin.push_back(*job.twin);
  return {{"site", ToJson(job.site)},
          {"baseline", ToJson(job.baseline)},
          {"candidate", ToJson(job.candidate)},
          {"twin", ListToJson(twin)},
          {"owners", ListToJson(job.owners)},
          {"data", ListToJson(job.data)},
          {"known", job.known},
          {"rule", ToJson(job.rule)},
          {"repeats", job.repeats},
          {"guard_pages", job.guard_pages},
          {"time_limit_ms", job.time_limit_ms},
          {"without", job.without}};
}

Result<CheckJob> CheckJobFromJson(const Json& json) {
  CheckJob job;
  FieldReader in(json, "check job");
  in.Read("site", &job.site, SiteFromJson);
  in.Read("baseline", &job.baseline, ProgramFromJson);
  in.Read("candidate", &job.candidate, ProgramFromJson);
  std::vector<Program> twin;
  in.Read("twin", &twin, ProgramFromJson);
  if (!twin.empty()) job.twin = std::move(twin[0]);
  in.Read("owners", &job.owners, ProgramFromJson);
  in.Read("data", &job.data, DataSetFromJson);
  in.Read("known", &job.known);
  in.Read("rule", &job.rule, RuleFromJson);
  in.Read("repeats", &job.repeats);
  in.Read("guard_pages", &job.guard_pages);
  in.Read("time_limit_ms", &job.time_limit_ms);
  std::vector<std::string> without;
  in.Read("without", &without);
  job.without.insert(without.begin(), without.end());
  KOPT_CHECK_OK(in.Done());
  return job;
}

Json ToJson(const CheckResult& result) {
  return {{"reason", result.reason},
          {"message", result.message},
          {"bitwise_equal", result.bitwise_equal},
          {"has_twin", result.has_twin},
          {"sets", ListToJson(result.sets)},
          {"worst_storage", result.worst_storage},
          {"worst_index", result.worst_index},
          {"worst_value", NumberToJson(result.worst_value)},
          {"worst_reference", NumberToJson(result.worst_reference)},
          {"worst_scale", NumberToJson(result.worst_scale)},
          {"worst_set", result.worst_set}};
}

Result<CheckResult> CheckResultFromJson(const Json& json) {
  CheckResult result;
  FieldReader in(json, "check result");
  in.Read("reason", &result.reason);
  in.Read("message", &result.message);
  in.Read("bitwise_equal", &result.bitwise_equal);
  in.Read("has_twin", &result.has_twin);
  in.Read("sets", &result.sets, SetResultFromJson);
  in.Read("worst_storage", &result.worst_storage);
  in.Read("worst_index", &result.worst_index);
  in.Read("worst_value", &result.worst_value);
  in.Read("worst_reference", &result.worst_reference);
  in.Read("worst_scale", &result.worst_scale);
  in.Read("worst_set", &result.worst_set);
  KOPT_CHECK_OK(in.Done());
  return result;
}

Json ToJson(const TimeJob& job) {
  return {{"site", ToJson(job.site)},
          {"programs", ListToJson(job.programs)},
          {"state", kStates[static_cast<int>(job.state)]},
          {"touched", job.touched},
          {"rounds", job.rounds},
          {"time_limit_ms", job.time_limit_ms},
          {"data", ToJson(job.data)}};
}

Result<TimeJob> TimeJobFromJson(const Json& json) {
  TimeJob job;
  FieldReader in(json, "time job");
  in.Read("site", &job.site, SiteFromJson);
  in.Read("programs", &job.programs, ProgramFromJson);
  in.ReadName("state", &job.state, StateFromString);
  in.Read("touched", &job.touched);
  in.Read("rounds", &job.rounds);
  in.Read("time_limit_ms", &job.time_limit_ms);
  in.Read("data", &job.data, DataSetFromJson);
  KOPT_CHECK_OK(in.Done());
  return job;
}

Json ToJson(const TimeResult& result) {
  Json samples = Json::array();
  for (const std::vector<double>& list : result.samples) {
    Json one = Json::array();
    for (double sample : list) one.push_back(NumberToJson(sample));
    samples.push_back(std::move(one));
  }
  return {{"samples", std::move(samples)}, {"failures", result.failures}};
}

Result<TimeResult> TimeResultFromJson(const Json& json) {
  TimeResult result;
  const Json* samples = KOPT_TRY(GetArray(json, "samples", "time result"));
  for (const Json& list : *samples) {
    const Json one = {{"samples", list}};
    FieldReader in(one, "time result");
    in.Read("samples", &result.samples.emplace_back());
    KOPT_CHECK_OK(in.Done());
  }
  FieldReader in(json, "time result");
  in.Read("failures", &result.failures);
  KOPT_CHECK_OK(in.Done());
  return result;
}

}  // namespace kernelopt
