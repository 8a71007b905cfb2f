#include "jobs.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "device/element_code.h"
#include "ttir/roles.h"

namespace kernelopt {
namespace {

Result<StorageSpec> StorageOf(const Json& json) {
  StorageSpec spec;
  spec.bytes = json.at("bytes").get<int64_t>();
  spec.dtype = KOPT_TRY(DTypeFromTriton(json.at("dtype").get<std::string>()));
  spec.role = StorageRole::kPoison;  // until something is loaded
  spec.int_low = json.value("int_low", int64_t{0});
  spec.int_high = json.value("int_high", int64_t{0});
  spec.has_envelope = json.contains("float_low");
  spec.float_low = json.value("float_low", 0.0);
  spec.float_high = json.value("float_high", 0.0);
  return spec;
}

/// Roles, joined over the slots of a storage.
Status SetRoles(ShadowJob* job) {
  const std::vector<PointerUse> uses = KOPT_TRY(PointerUses(job->module));
  std::vector<int> storage_of;  // by parameter
  for (const LaunchParameter& parameter : job->program.record.parameters) {
    if (parameter.kind == LaunchParameter::Kind::kScratch) continue;
    storage_of.push_back(job->site.arguments.at(static_cast<size_t>(parameter.argument)).storage);
  }
  std::set<int> written;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!uses[i].is_pointer) continue;
    StorageSpec& spec = job->site.storages.at(static_cast<size_t>(storage_of.at(i)));
    if (uses[i].loads + uses[i].atomics > 0) spec.role = StorageRole::kData;
    spec.is_weight |= uses[i].weight;
    spec.written |= uses[i].stores + uses[i].atomics > 0;
    if (spec.written && KoptIsFloat(static_cast<int>(spec.dtype))) written.insert(storage_of[i]);
  }
  for (size_t i = 0; i < uses.size(); ++i)
    if (uses[i].is_pointer && written.contains(storage_of[i]))
      job->written_floats.insert(static_cast<int>(i));
  return {};
}

}  // namespace

Result<ShadowJob> ReadShadowJob(const Json& json, const std::string& folder) {
  ShadowJob job;
  job.name = job.site.name = json.at("name").get<std::string>();
  const std::string path = folder + "/" + json.at("files").get<std::string>();
  job.program.cubin_path = path + ".cubin";
  job.program.ttir_path = path + ".ttir";
  job.program.record = KOPT_TRY(LaunchRecordFromJson(json.at("record")));
  job.program.grid = json.at("grid").get<std::array<int64_t, 3>>();
  for (const Json& each : json.at("storages"))
    job.site.storages.push_back(KOPT_TRY(StorageOf(each)));
  for (const Json& each : json.at("arguments")) {
    ArgumentSpec& argument = job.site.arguments.emplace_back();
    argument.kind = each.contains("storage") ? ArgumentSpec::Kind::kStorage
                    : each.contains("float") ? ArgumentSpec::Kind::kFloat
                                             : ArgumentSpec::Kind::kInt;
    argument.storage = each.value("storage", -1);
    argument.byte_offset = each.value("offset", int64_t{0});
    argument.int_value = each.value("int", int64_t{0});
    argument.float_value = each.value("float", 0.0);
  }
  job.module = KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(job.program.ttir_path)), job.program.ttir_path));
  KOPT_CHECK_OK(SetRoles(&job));
  return job;
}

}  // namespace kernelopt
