// manifest.json: writing and reading (docs/protocol.md).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pack/kernel_file.h"
#include "pack/pack.h"

namespace kernelopt {
namespace {

constexpr std::string_view kWhat = "the manifest";

Result<std::vector<std::string>> Strings(const Json& object, std::string_view key) {
  std::vector<std::string> strings;
  for (const Json& value : *KOPT_TRY(GetArray(object, key, kWhat))) {
    if (!value.is_string()) {
      return Fail(ErrorKind::kUsage, "bad_field",
                  fmt::format("{}'s list '{}' holds something that is no text", kWhat, key));
    }
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

Result<PackVariant> VariantFromJson(const Json& json) {
  PackVariant variant;
  variant.name = KOPT_TRY(GetString(json, "name", kWhat));
  variant.mode = KOPT_TRY(GetString(json, "mode", kWhat));
  variant.train = KOPT_TRY(GetBool(json, "train", kWhat));
  variant.input_set = static_cast<int>(KOPT_TRY(GetInt(json, "input_set", kWhat)));
  variant.modules = KOPT_TRY(Strings(json, "modules"));
  if (json.contains("speedup") && !json["speedup"].is_null()) {
    const Json& speedup = *KOPT_TRY(GetObject(json, "speedup", kWhat));
    variant.speedup = PackSpeedup{KOPT_TRY(GetDouble(speedup, "median", kWhat)),
                                  KOPT_TRY(GetDouble(speedup, "lo", kWhat)),
                                  KOPT_TRY(GetDouble(speedup, "hi", kWhat))};
  }
  return variant;
}

Result<std::string> FileName(const Json& json, std::string_view key, const Json& files) {
  std::string name = KOPT_TRY(GetString(json, key, kWhat));
  if (!files.contains(name)) {
    return Fail(ErrorKind::kUsage, "bad_field",
                fmt::format("{} has no hash for the file '{}'", kWhat, name));
  }
  return name;
}

Result<PackKernel> KernelFromJson(const Json& json, const Json& files) {
  PackKernel kernel;
  kernel.id = KOPT_TRY(GetString(json, "id", kWhat));
  kernel.name = KOPT_TRY(GetString(json, "name", kWhat));
  kernel.replacement.kernel_key = KOPT_TRY(GetString(json, "kernel_key", kWhat));
  kernel.replacement.origin = KOPT_TRY(GetString(json, "origin", kWhat));
  kernel.replacement.change = KOPT_TRY(GetString(json, "change", kWhat));
  if (const std::string form = KOPT_TRY(GetString(json, "form", kWhat)); form != "drop_in") {
    return Fail(ErrorKind::kUsage, "bad_field",
                fmt::format("{} has a kernel of the form '{}', wanted drop_in", kWhat, form));
  }
  kernel.modules = KOPT_TRY(Strings(json, "modules"));
  kernel.file = KOPT_TRY(FileName(json, "file", files));
  kernel.cubin_file = KOPT_TRY(FileName(json, "cubin", files));
  kernel.binary_hash = KOPT_TRY(GetString(json, "binary_hash", kWhat));
  kernel.label = KOPT_TRY(GetString(json, "label", kWhat));
  kernel.record = KOPT_TRY(LaunchRecordFromJson(*KOPT_TRY(GetObject(json, "record", kWhat))));
  ReplacementStep step;
  step.config = KOPT_TRY(LaunchConfigFromJson(*KOPT_TRY(GetObject(json, "config", kWhat))));
  kernel.replacement.steps.push_back(std::move(step));
  return kernel;
}

Result<Pack> PackFromJson(const Json& json) {
  Pack pack;
  pack.kernelopt_version = KOPT_TRY(GetString(json, "kernelopt", kWhat));
  pack.preview = KOPT_TRY(GetBool(json, "preview", kWhat));
  pack.policy = KOPT_TRY(GetString(json, "policy", kWhat));
  const Json& versions = *KOPT_TRY(GetObject(json, "versions", kWhat));
  pack.torch = KOPT_TRY(GetString(versions, "torch", kWhat));
  pack.triton = KOPT_TRY(GetString(versions, "triton", kWhat));
  pack.python = KOPT_TRY(GetString(versions, "python", kWhat));
  const Json& gpu = *KOPT_TRY(GetObject(json, "gpu", kWhat));
  pack.gpu.name = KOPT_TRY(GetString(gpu, "name", kWhat));
  pack.gpu.compute_capability =
      static_cast<int>(KOPT_TRY(GetInt(gpu, "compute_capability", kWhat)));
  pack.gpu.sm_count = static_cast<int>(KOPT_TRY(GetInt(gpu, "sm_count", kWhat)));
  pack.gpu.mig = KOPT_TRY(GetString(gpu, "mig", kWhat));
  const Json& model = *KOPT_TRY(GetObject(json, "model", kWhat));
  pack.model_file = KOPT_TRY(GetString(model, "file", kWhat));
  pack.model_sha256 = KOPT_TRY(GetString(model, "sha256", kWhat));
  const Json& files = *KOPT_TRY(GetObject(json, "files", kWhat));
  for (const auto& [name, hash] : files.items()) {
    if (!IsPackFileName(name)) {
      return Fail(ErrorKind::kUsage, "bad_field",
                  fmt::format("{} names the file '{}', which is no name inside the pack", kWhat,
                              name.substr(0, 200)));
    }
    if (!hash.is_string()) {
      return Fail(ErrorKind::kUsage, "bad_field",
                  fmt::format("{} has no hash for the file '{}'", kWhat, name));
    }
    pack.files[name] = hash.get<std::string>();
  }
  for (const Json& variant : *KOPT_TRY(GetArray(json, "variants", kWhat))) {
    pack.variants.push_back(KOPT_TRY(VariantFromJson(variant)));
  }
  for (const Json& kernel : *KOPT_TRY(GetArray(json, "kernels", kWhat))) {
    pack.kernels.push_back(KOPT_TRY(KernelFromJson(kernel, files)));
  }
  return pack;
}

}  // namespace

Json ManifestOf(const Pack& pack) {
  Json json;
  json["schema"] = kPackSchema;
  json["kernelopt"] = pack.kernelopt_version;
  json["preview"] = pack.preview;
  json["policy"] = pack.policy;
  json["versions"] = {{"torch", pack.torch}, {"triton", pack.triton}, {"python", pack.python}};
  json["gpu"] = {{"name", pack.gpu.name},
                 {"compute_capability", pack.gpu.compute_capability},
                 {"sm_count", pack.gpu.sm_count},
                 {"mig", pack.gpu.mig}};
  json["model"] = {{"file", pack.model_file}, {"sha256", pack.model_sha256}};
  json["variants"] = Json::array();
  for (const PackVariant& variant : pack.variants) {
    Json item;
    item["name"] = variant.name;
    item["mode"] = variant.mode;
    item["train"] = variant.train;
    item["input_set"] = variant.input_set;
    item["speedup"] = nullptr;
    if (variant.speedup) {
      item["speedup"] = {{"median", variant.speedup->median},
                         {"lo", variant.speedup->lo},
                         {"hi", variant.speedup->hi}};
    }
    item["modules"] = variant.modules;
    json["variants"].push_back(std::move(item));
  }
  json["kernels"] = Json::array();
  for (const PackKernel& kernel : pack.kernels) {
    Json item;
    item["id"] = kernel.id;
    item["name"] = kernel.name;
    item["kernel_key"] = kernel.replacement.kernel_key;
    item["modules"] = kernel.modules;
    item["file"] = kernel.file;
    item["config"] = ToJson(kernel.replacement.steps.at(0).config);
    item["form"] = "drop_in";
    item["binary_hash"] = kernel.binary_hash;
    item["cubin"] = kernel.cubin_file;
    item["record"] = ToJson(kernel.record);
    item["label"] = kernel.label;
    item["origin"] = kernel.replacement.origin;
    item["change"] = kernel.replacement.change;
    json["kernels"].push_back(std::move(item));
  }
  json["files"] = Json::object();
  for (const auto& [name, hash] : pack.files) json["files"][name] = hash;
  return json;
}

Result<Pack> ParseManifest(std::string_view text, const std::string& where) {
  const auto corrupt = [&](const std::string& message) {
    return Fail(ErrorKind::kUsage, "corrupt_pack",
                message + "; make the pack again with `kernelopt optimize`", where);
  };
  auto json = ParseJson(text, kWhat);
  if (!json) return corrupt(json.error().message);
  const auto schema = GetInt(*json, "schema", kWhat);
  if (!schema) return corrupt(schema.error().message);
  if (*schema > kPackSchema) {
    return Fail(ErrorKind::kUsage, "newer_schema",
                fmt::format("the pack has schema {} and this kernelopt reads up to {}; update "
                            "kernelopt",
                            *schema, kPackSchema),
                where);
  }
  auto pack = PackFromJson(*json);
  if (!pack) return corrupt(pack.error().message);
  return pack;
}

}  // namespace kernelopt
