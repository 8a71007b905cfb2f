#include "pipeline/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace kernelopt {
namespace {

constexpr std::array kModes = {"default", "reduce-overhead", "max-autotune",
                               "max-autotune-no-cudagraphs"};
constexpr std::array kPolicies = {"strict", "bitwise"};

template <typename Names>
bool Contains(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

template <typename Names>
std::string Join(const Names& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<VariantSpec> RunOptions::Variants() const {
  std::vector<VariantSpec> variants;
  for (const std::string& mode : modes) variants.push_back({.mode = mode});
  if (train) {
    for (const std::string& mode : modes) variants.push_back({.mode = mode, .train = true});
  }
  return variants;
}

Json ToJson(const RunOptions& options) {
  return {{"model", options.model},
          {"entry", options.entry},
          {"recording", options.recording},
          {"modes", options.modes},
          {"train", options.train},
          {"budget_s", options.budget_s},
          {"min_gain", options.min_gain},
          {"policy", options.policy},
          {"allow_weaker", options.allow_weaker}};
}

Result<RunOptions> RunOptionsFromJson(const Json& json) {
  constexpr std::string_view kWhat = "the run's options";
  RunOptions options;
  options.model = KOPT_TRY(GetString(json, "model", kWhat));
  options.entry = KOPT_TRY(GetString(json, "entry", kWhat));
  options.recording = KOPT_TRY(GetString(json, "recording", kWhat));
  const Json* modes = KOPT_TRY(GetArray(json, "modes", kWhat));
  options.modes.clear();
  for (const Json& mode : *modes) {
    if (mode.is_string()) options.modes.push_back(mode.get<std::string>());
  }
  options.train = KOPT_TRY(GetBool(json, "train", kWhat));
  options.budget_s = KOPT_TRY(GetDouble(json, "budget_s", kWhat));
  options.min_gain = KOPT_TRY(GetDouble(json, "min_gain", kWhat));
  options.policy = KOPT_TRY(GetString(json, "policy", kWhat));
  options.allow_weaker = KOPT_TRY(GetBool(json, "allow_weaker", kWhat));
  KOPT_CHECK_OK(CheckOptions(options));
  return options;
}

Status CheckOptions(const RunOptions& options) {
  auto bad = [](std::string message) {
    return Fail(ErrorKind::kUsage, "bad_option", std::move(message));
  };
  if (options.modes.empty()) return bad("--modes names no mode; give one of " + Join(kModes));
  for (const std::string& mode : options.modes) {
    if (!Contains(kModes, mode)) {
      return bad(fmt::format("--modes has '{}', which is none of {}", mode, Join(kModes)));
    }
  }
  if (!Contains(kPolicies, options.policy)) {
    return bad(fmt::format("--policy is '{}'; give one of {}", options.policy, Join(kPolicies)));
  }
  if (!(options.budget_s > 0)) return bad("--budget must be a time above 0, for instance 10m");
  if (!(options.min_gain >= 0 && options.min_gain < 1)) {
    return bad(
        fmt::format("--min-gain is {}; give a share from 0 to 1, for instance 0.005 for 0.5 %",
                    options.min_gain));
  }
  if (!options.entry.empty()) {
    size_t colon = options.entry.find(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == options.entry.size() ||
        colon != options.entry.rfind(':')) {
      return bad(fmt::format("--entry is '{}'; give module:function", options.entry));
    }
  }
  std::error_code error;
  if (!options.model.empty() && !std::filesystem::is_regular_file(options.model, error)) {
    // What isn't there, a folder or a circle of links is named best by reading it; a pipe
    // or a device may never end.
    if (!std::filesystem::is_other(options.model, error)) {
      if (auto text = ReadFile(options.model); !text) return std::unexpected(text.error());
    }
    return Fail(ErrorKind::kUsage, "no_such_file", "is no file; give a Python file with a model",
                options.model);
  }
  if (!options.recording.empty() &&
      !std::filesystem::is_regular_file(options.recording + "/capture.json", error)) {
    return Fail(ErrorKind::kUsage, "no_such_file",
                "holds no capture.json; give the folder of a recorded capture", options.recording);
  }
  return {};
}

Result<std::vector<std::string>> ParseModes(const std::string& text) {
  std::vector<std::string> modes;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string mode = text.substr(begin, end - begin);
    if (mode.empty()) {
      return Fail(
          ErrorKind::kUsage, "bad_option",
          fmt::format("--modes is '{}'; give modes with commas between, without spaces", text));
    }
    if (!Contains(modes, mode)) modes.push_back(mode);
    begin = end + 1;
  }
  return modes;
}

}  // namespace kernelopt
