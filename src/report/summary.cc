#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "report/fields.h"
#include "report/html.h"
#include "report/report.h"

namespace kernelopt {
namespace {

constexpr size_t kColumns = 80;  // of a terminal that nobody has made wider
constexpr size_t kShownVariants = 4;
constexpr size_t kShownKernels = 8;
constexpr size_t kShownReasons = 3;

void AddLine(std::string& out, std::string_view line) {
  out += Cut(line, kColumns);
  out += '\n';
}

/// A sentence, broken at spaces: what it says last may be what to do.
void AddSentence(std::string& out, const std::string& sentence) {
  const std::string text = CleanText(sentence);
  std::string line;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find(' ', i), text.size());
    const std::string word = text.substr(i, end - i);
    i = std::min(end + 1, text.size());
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      AddLine(out, line);
      line = " ";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  AddLine(out, line);
}

std::string GateMarks(const Json& kernel) {
  std::string marks;
  for (const Json& gate : Field(kernel, "gates")) {
    const std::string state = Str(gate, "state");
    marks += state == "passed"           ? '+'
             : state == "failed"         ? 'x'
             : state == "not_verifiable" ? '?'
                                         : '.';
  }
  return marks;
}

std::string VersionsText(const Json& versions) {
  std::string text;
  for (const char* name : {"torch", "triton"}) {
    if (const std::string version = Str(versions, name); !version.empty()) {
      text += fmt::format(", {} {}", name, version);
    }
  }
  return text;
}

void AddVariants(std::string& out, const Json& variants) {
  if (variants.empty()) return;
  AddLine(out, fmt::format("{:<20} {:>9} {:>9} {:>9}  {}", "variant", "eager", "compiler", "ours",
                           "speed-up (interval)"));
  for (size_t i = 0; i < std::min(variants.size(), kShownVariants); ++i) {
    const Json& variant = variants[i];
    const Json& speedup = Field(variant, "speedup");
    std::string gain = Str(variant, "message");
    if (Num(speedup, "median")) {
      gain = fmt::format("{} ({} to {})", Times(Num(speedup, "median")), Times(Num(speedup, "lo")),
                         Times(Num(speedup, "hi")));
    }
    AddLine(out, fmt::format("{:<20} {:>9} {:>9} {:>9}  {}", Shorten(Str(variant, "name"), 20),
                             Microseconds(Num(variant, "eager_us")),
                             Microseconds(Num(variant, "compiled_us")),
                             Microseconds(Num(variant, "ours_us")), gain));
  }
}

void AddKernels(std::string& out, const Json& kernels) {
  if (kernels.empty()) return;
  AddLine(out, fmt::format("{:<26} {:>3} {:>8} {:>8} {:>6} {:>5} {}", "kernel", "n", "compiler",
                           "ours", "", "gates", "outcome"));
  for (size_t i = 0; i < std::min(kernels.size(), kShownKernels); ++i) {
    const Json& kernel = kernels[i];
    const auto compiler = Num(kernel, "compiler_us"), ours = Num(kernel, "ours_us");
    std::optional<double> ratio;
    if (compiler && ours && *ours > 0) ratio = *compiler / *ours;
    const std::string reason = Str(kernel, "reason");
    const std::string outcome = Words(Str(kernel, "outcome")) +
                                (reason.empty() || reason == "ok" ? "" : ": " + Words(reason));
    AddLine(out,
            fmt::format("{:<26} {:>3} {:>8} {:>8} {:>6} {:>5} {}", Shorten(Str(kernel, "name"), 26),
                        static_cast<int64_t>(Num(kernel, "launches").value_or(0)),
                        Microseconds(compiler), Microseconds(ours), Times(ratio), GateMarks(kernel),
                        outcome));
  }
  if (kernels.size() > kShownKernels) {
    AddLine(out, fmt::format("... and {} more", kernels.size() - kShownKernels));
  }
}

void AddKept(std::string& out, const Json& kernels) {
  std::map<std::string, int> reasons;
  for (const Json& kernel : kernels) {
    const std::string reason = Str(kernel, "reason");
    if (Str(kernel, "outcome") != "improved" && !reason.empty()) ++reasons[reason];
  }
  std::vector<std::pair<std::string, int>> sorted(reasons.begin(), reasons.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(), &std::pair<std::string, int>::second);
  for (size_t i = 0; i < std::min(sorted.size(), kShownReasons); ++i) {
    AddLine(out, fmt::format("kept as the compiler made them: {} x {}", sorted[i].second,
                             Words(sorted[i].first)));
  }
}

void AddSteps(std::string& out, const Json& steps) {
  double total = 0;
  std::string each;
  for (const Json& step : steps) {
    const double seconds = Num(step, "seconds").value_or(0);
    total += seconds;
    each += fmt::format("{}{} {}", each.empty() ? "" : ", ", Str(step, "name"), Seconds(seconds));
  }
  if (!each.empty()) AddLine(out, fmt::format("time: {} ({})", Seconds(total), each));
}

}  // namespace

std::string ReportSummary(const Json& data) {
  std::string out;
  const Json& outcome = Field(data, "outcome");
  const Json& gpu = Field(data, "gpu");
  AddLine(out, fmt::format("{} on {}{}", Str(Field(data, "model"), "file"),
                           Str(gpu, "name").empty() ? "no GPU" : Str(gpu, "name"),
                           VersionsText(Field(data, "versions"))));
  const std::string result = Words(Str(outcome, "result"));
  const std::string message = Str(outcome, "message");
  AddSentence(out, fmt::format("{}{}{}{}", result.empty() ? "unfinished" : result,
                               message.empty() ? "" : ": ", message,
                               Flag(data, "preview") ? " [preview]" : ""));
  if (const auto at_most = Num(Field(data, "estimate"), "at_most")) {
    AddLine(out, fmt::format("estimated before the search: at most {}", Times(at_most)));
  }
  AddVariants(out, Field(data, "variants"));
  AddKernels(out, Field(data, "kernels"));
  AddKept(out, Field(data, "kernels"));
  AddSteps(out, Field(data, "steps"));
  if (const std::string pack = Str(outcome, "pack"); !pack.empty()) AddLine(out, "pack: " + pack);
  return out;
}

}  // namespace kernelopt
