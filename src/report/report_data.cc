#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "report/fields.h"
#include "report/report.h"

namespace kernelopt {
namespace {

Json Parse(const std::string& text) {
  auto json = ParseJson(text, "a row of the store");
  return json ? *json : Json(nullptr);
}

Json VerdictJson(const VerdictRecord& v) {
  Json json;
  json["gate"] = v.key.gate;
  json["stage"] = v.key.stage;
  json["variant"] = v.key.variant;
  json["accepted"] = v.accepted;
  json["final"] = v.final;
  json["reason"] = v.reason;
  json["message"] = v.message;
  return json;
}

/// What became of one gate: failed if anything was rejected, else passed if
/// anything was accepted.
Json GateState(int gate, const std::vector<const VerdictRecord*>& verdicts) {
  const VerdictRecord* shown = nullptr;
  for (const VerdictRecord* v : verdicts) {
    if (!v->final && shown != nullptr) continue;
    if (shown == nullptr || !v->accepted || !shown->final || shown->accepted) shown = v;
  }
  Json json;
  json["gate"] = gate;
  json["state"] = shown == nullptr  ? "not_reached"
                  : shown->accepted ? "passed"
                  : shown->final    ? "failed"
                                    : "not_verifiable";
  json["reason"] = shown == nullptr ? "" : shown->reason;
  json["message"] = shown == nullptr ? "" : shown->message;
  return json;
}

/// Of a kernel without a winner: the verdicts on the candidate that came furthest.
std::string FurthestSubject(const std::vector<VerdictRecord>& verdicts) {
  std::string furthest;
  int reached = 0;
  for (const VerdictRecord& v : verdicts) {
    const int here = 2 * v.key.gate + (v.accepted ? 1 : 0);
    if (here > reached) {
      reached = here;
      furthest = v.key.subject;
    }
  }
  return furthest;
}

Json GatesOf(const Json& kernel, const std::vector<VerdictRecord>& own, const Json& variants) {
  std::string subject = Str(kernel, "replacement");
  if (subject.empty()) subject = FurthestSubject(own);
  Json gates = Json::array();
  for (int gate = 1; gate <= 4; ++gate) {
    std::vector<const VerdictRecord*> here;
    for (const VerdictRecord& v : own) {
      if (v.key.gate == gate && v.key.subject == subject) here.push_back(&v);
    }
    // Gates 3 and 4 judge the stitched model: its verdict is that of the
    // kernels that are in it.
    std::vector<VerdictRecord> of_model;
    if (here.empty() && gate >= 3 && Str(kernel, "outcome") == "improved") {
      for (const Json& variant : variants) {
        for (const Json& v : Field(variant, "verdicts")) {
          if (Num(v, "gate") != gate || !Flag(v, "accepted")) continue;
          VerdictRecord record;
          record.accepted = true;
          record.reason = Str(v, "reason");
          record.message = Str(v, "message");
          of_model.push_back(std::move(record));
        }
      }
      for (const VerdictRecord& v : of_model) here.push_back(&v);
    }
    gates.push_back(GateState(gate, here));
  }
  return gates;
}

/// Seconds a step, over all sessions that worked on it.
Json StepsJson(const std::vector<StepRecord>& steps) {
  struct Story {
    int64_t started_us = 0;
    double seconds = 0;
    std::string state;
  };
  std::vector<std::string> order;
  std::map<std::string, Story> stories;
  for (const StepRecord& step : steps) {
    if (!stories.contains(step.name)) order.push_back(step.name);
    Story& story = stories[step.name];
    if (step.state == "started") {
      story.started_us = step.at_us;
    } else if (story.started_us != 0) {
      story.seconds += static_cast<double>(step.at_us - story.started_us) / 1e6;
      story.started_us = 0;
    }
    story.state = step.state;
  }
  Json json = Json::array();
  for (const std::string& name : order) {
    Json item;
    item["name"] = name;
    item["seconds"] = stories[name].seconds;
    item["state"] = stories[name].state;
    json.push_back(std::move(item));
  }
  return json;
}

void Overlay(Json& target, const Json& more) {
  if (!more.is_object()) return;
  for (const auto& [key, value] : more.items()) target[key] = value;
}

}  // namespace

Result<Json> ReportData(const Store& store) {
  const std::map<std::string, std::string> facts = KOPT_TRY(store.Facts());
  Json data;
  data["run"] = store.RunId();
  for (const char* key : {"model", "gpu", "versions", "policy", "preview", "estimate", "outcome"}) {
    const auto it = facts.find(key);
    data[key] = it == facts.end() ? Json(nullptr) : Parse(it->second);
  }

  const std::vector<VerdictRecord> on_sets = KOPT_TRY(store.AllVerdicts(""));
  data["variants"] = Json::array();
  constexpr std::string_view kVariant = "variant/";
  for (const auto& [key, value] : facts) {
    if (!key.starts_with(kVariant)) continue;
    Json variant;
    variant["name"] = key.substr(kVariant.size());
    Overlay(variant, Parse(value));
    variant["verdicts"] = Json::array();
    for (const VerdictRecord& v : on_sets) {
      if (v.key.variant == key.substr(kVariant.size())) {
        variant["verdicts"].push_back(VerdictJson(v));
      }
    }
    data["variants"].push_back(std::move(variant));
  }

  std::vector<Json> kernels;
  for (const KernelRecord& record : KOPT_TRY(store.Kernels())) {
    Json kernel;
    kernel["key"] = record.key;
    kernel["name"] = record.name;
    const Json detail = Parse(record.detail);
    Overlay(kernel, detail);
    if (const auto it = facts.find("kernel/" + record.key); it != facts.end()) {
      Overlay(kernel, Parse(it->second));
    }
    if (Field(kernel, "config_before").is_null()) kernel["config_before"] = Field(detail, "config");
    kernel["candidates"] = KOPT_TRY(store.Replacements(record.key)).size();
    kernel["gates"] = GatesOf(kernel, KOPT_TRY(store.AllVerdicts(record.key)), data["variants"]);
    kernels.push_back(std::move(kernel));
  }
  std::ranges::stable_sort(kernels, [](const Json& a, const Json& b) {
    return Num(a, "gain_us").value_or(0) > Num(b, "gain_us").value_or(0);
  });
  data["kernels"] = std::move(kernels);

  data["steps"] = StepsJson(KOPT_TRY(store.Steps()));
  data["decisions"] = Json::array();
  for (const DecisionRecord& decision : KOPT_TRY(store.Decisions())) {
    Json item;
    item["kernel"] = decision.kernel;
    item["kind"] = decision.kind;
    item["message"] = decision.message;
    data["decisions"].push_back(std::move(item));
  }
  return data;
}

}  // namespace kernelopt
