#include "device/replacement.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "device/json_fields.h"

namespace kernelopt {
namespace {

constexpr std::pair<ReplacementForm, std::string_view> kForms[] = {
    {ReplacementForm::kDropIn, "drop_in"},
    {ReplacementForm::kCallObject, "call_object"},
    {ReplacementForm::kModuleEdit, "module_edit"},
};

Result<ReplacementForm> FormFromString(std::string_view name) {
  for (const auto& [form, text] : kForms) {
    if (text == name) return form;
  }
  return Fail(ErrorKind::kUsage, "bad_field",
              fmt::format("replacement: the form '{}' is unknown, wanted drop_in, call_object or "
                          "module_edit",
                          name));
}

Json ToJson(const Workspace& workspace) {
  return {{"bytes", workspace.bytes}, {"alignment", workspace.alignment}, {"init", workspace.init}};
}

Result<Workspace> WorkspaceFromJson(const Json& json) {
  Workspace workspace;
  FieldReader in(json, "workspace");
  in.Read("bytes", &workspace.bytes);
  in.Read("alignment", &workspace.alignment);
  in.Read("init", &workspace.init);
  KOPT_CHECK_OK(in.Done());
  return workspace;
}

Json ToJson(const ReplacementStep& step) {
  return {{"kernel_text", step.kernel_text},
          {"config", kernelopt::ToJson(step.config)},
          {"grid", step.grid},
          {"cooperative", step.cooperative}};
}

Result<ReplacementStep> StepFromJson(const Json& json) {
  ReplacementStep step;
  FieldReader in(json, "replacement step");
  in.Read("kernel_text", &step.kernel_text);
  in.Read("config", &step.config, LaunchConfigFromJson);
  in.Read("grid", &step.grid);
  in.Read("cooperative", &step.cooperative);
  KOPT_CHECK_OK(in.Done());
  return step;
}

/// All that makes a replacement what it is.
Json Content(const Replacement& replacement) {
  Json json;
  json["kernel_key"] = replacement.kernel_key;
  for (const auto& [form, text] : kForms) {
    if (form == replacement.form) json["form"] = text;
  }
  json["workspaces"] = Json::array();
  for (const Workspace& workspace : replacement.workspaces) {
    json["workspaces"].push_back(ToJson(workspace));
  }
  json["steps"] = Json::array();
  for (const ReplacementStep& step : replacement.steps) json["steps"].push_back(ToJson(step));
  return json;
}

}  // namespace

std::string LaunchConfig::ToString() const {
  std::string text;
  for (const auto& [name, value] : constexprs) text += fmt::format("{}={} ", name, value);
  text += fmt::format("warps={} stages={}", num_warps, num_stages);
  if (num_ctas != 1) text += fmt::format(" ctas={}", num_ctas);
  if (maxnreg) text += fmt::format(" maxnreg={}", *maxnreg);
  return text;
}

Json ToJson(const LaunchConfig& config) {
  Json constexprs = Json::object();
  for (const auto& [name, value] : config.constexprs) constexprs[name] = value;
  return {{"constexprs", std::move(constexprs)},
          {"num_warps", config.num_warps},
          {"num_stages", config.num_stages},
          {"num_ctas", config.num_ctas},
          {"maxnreg", config.maxnreg ? Json(*config.maxnreg) : Json(nullptr)}};
}

Result<LaunchConfig> LaunchConfigFromJson(const Json& json) {
  LaunchConfig config;
  const Json* constexprs = KOPT_TRY(GetObject(json, "constexprs", "launch configuration"));
  for (const auto& [name, value] : constexprs->items()) {
    config.constexprs[name] = KOPT_TRY(GetInt(*constexprs, name, "launch configuration"));
  }
  FieldReader in(json, "launch configuration");
  in.Read("num_warps", &config.num_warps);
  in.Read("num_stages", &config.num_stages);
  in.Read("num_ctas", &config.num_ctas);
  if (json.contains("maxnreg") && !json["maxnreg"].is_null()) {
    int cap = 0;
    in.Read("maxnreg", &cap);
    config.maxnreg = cap;
  }
  KOPT_CHECK_OK(in.Done());
  return config;
}

std::string Replacement::Id() const {
  return Sha256Hex(DumpJson(Content(*this)));
}

Json ToJson(const Replacement& replacement) {
  Json json = Content(replacement);
  json["origin"] = replacement.origin;
  json["change"] = replacement.change;
  return json;
}

Result<Replacement> ReplacementFromJson(const Json& json) {
  Replacement replacement;
  FieldReader in(json, "replacement");
  in.Read("kernel_key", &replacement.kernel_key);
  in.ReadName("form", &replacement.form, FormFromString);
  in.Read("workspaces", &replacement.workspaces, WorkspaceFromJson);
  in.Read("steps", &replacement.steps, StepFromJson);
  in.Read("origin", &replacement.origin);
  in.Read("change", &replacement.change);
  KOPT_CHECK_OK(in.Done());
  return replacement;
}

}  // namespace kernelopt
