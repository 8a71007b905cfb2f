#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "report/charts.h"
#include "report/fields.h"
#include "report/html.h"
#include "report/report.h"
#include "report/style.h"

namespace kernelopt {
namespace {

constexpr size_t kChartedKernels = 16;

Html Section(std::string_view title, std::string_view lead, const Html& inside) {
  return Tag("section", {},
             Tag("h2", {}, Text(title)) + Tag("p", {{"class", "soft small"}}, Text(lead)) + inside);
}

Html Cell(std::string css_class, const Html& inside) {
  return Tag("td", {{"class", std::move(css_class)}}, inside);
}

Html HeadRow(std::initializer_list<std::pair<std::string_view, bool>> names_and_right) {
  Html cells;
  for (const auto& [name, right] : names_and_right) {
    cells += Tag("th", {{"class", right ? "right" : ""}}, Text(name));
  }
  return Tag("thead", {}, Tag("tr", {}, cells));
}

std::string BadgeClass(std::string_view outcome) {
  if (outcome == "improved") return "badge passed";
  if (outcome == "failed") return "badge failed";
  if (outcome == "not_measured" || outcome == "interrupted") return "badge open";
  return "badge";
}

Html Badge(const std::string& outcome) {
  return Tag("span", {{"class", BadgeClass(outcome)}}, Text(Words(outcome)));
}

std::string FileName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

Html Header(const Json& data) {
  const Json& outcome = Field(data, "outcome");
  const Json& versions = Field(data, "versions");
  std::string where = Str(Field(data, "gpu"), "name");
  if (where.empty()) where = "no GPU";
  for (const char* name : {"torch", "triton", "kernelopt"}) {
    if (const std::string version = Str(versions, name); !version.empty()) {
      where += fmt::format(" \u00b7 {} {}", name, version);
    }
  }
  std::string result = Str(outcome, "result");
  if (result.empty()) result = "unfinished";
  Html verdict = Badge(result) + Tag("span", {}, Text(Str(outcome, "message")));
  if (Flag(data, "preview")) {
    verdict +=
        Tag("span", {{"class", "badge open"}, {"title", "some gates were weaker than final"}},
            Text("preview"));
  }
  const std::string model = FileName(Str(Field(data, "model"), "file"));
  return Tag("p", {{"class", "soft small"}}, Text("KernelOPT report")) +
         Tag("h1", {}, Text(model.empty() ? "unnamed model" : model)) +
         Tag("p", {{"class", "soft"}}, Text(where)) + Tag("div", {{"class", "verdict"}}, verdict);
}

Html Tile(const std::string& value, std::string_view what, bool main = false) {
  return Tag("div", {{"class", main ? "tile main" : "tile"}},
             Tag("b", {}, Text(value)) + Tag("span", {{"class", "soft small"}}, Text(what)));
}

Html Tiles(const Json& data) {
  Html tiles;
  const Json& variants = Field(data, "variants");
  const auto shown = std::ranges::find_if(
      variants, [](const Json& v) { return Num(Field(v, "speedup"), "median").has_value(); });
  if (shown != variants.end()) {
    const Json& speedup = Field(*shown, "speedup");
    tiles += Tile(Times(Num(speedup, "median")),
                  fmt::format("the model over torch.compile, {} ({} to {})", Str(*shown, "name"),
                              Times(Num(speedup, "lo")), Times(Num(speedup, "hi"))),
                  Flag(*shown, "accepted"));
  }
  const Json& kernels = Field(data, "kernels");
  const auto improved =
      std::ranges::count_if(kernels, [](const Json& k) { return Str(k, "outcome") == "improved"; });
  tiles += Tile(fmt::format("{} of {}", improved, kernels.size()),
                "kernels replaced; the rest stay as the compiler made them");
  if (const auto at_most = Num(Field(data, "estimate"), "at_most")) {
    tiles += Tile(Times(at_most), "at most possible, estimated before the search");
  }
  double seconds = 0;
  for (const Json& step : Field(data, "steps")) seconds += Num(step, "seconds").value_or(0);
  if (seconds > 0) tiles += Tile(Seconds(seconds), "spent on this run");
  return Tag("div", {{"class", "tiles"}}, tiles);
}

Html Variants(const Json& variants) {
  if (variants.empty()) return {};
  std::vector<Interval> intervals;
  for (const Json& variant : variants) {
    const Json& speedup = Field(variant, "speedup");
    intervals.push_back({Num(speedup, "median"), Num(speedup, "lo"), Num(speedup, "hi"),
                         Flag(variant, "accepted")});
  }
  const IntervalScale scale = ScaleOf(intervals);
  Html rows;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Json& variant = variants[i];
    const std::string speed = intervals[i].median
                                  ? fmt::format("{} ({} to {})", Times(intervals[i].median),
                                                Times(intervals[i].lo), Times(intervals[i].hi))
                                  : Words(Str(variant, "reason"));
    rows += Tag("tr", {{"class", i + 1 == intervals.size() ? "last" : ""}},
                Cell("name", Text(Str(variant, "name"))) +
                    Cell("right", Text(Microseconds(Num(variant, "eager_us")))) +
                    Cell("right", Text(Microseconds(Num(variant, "compiled_us")))) +
                    Cell("right", Text(Microseconds(Num(variant, "ours_us")))) +
                    Cell("plot", IntervalChart(intervals[i], scale)) + Cell("right", Text(speed)));
  }
  rows += Tag("tr", {{"class", "axis"}},
              Tag("td", {{"colspan", "4"}}) + Cell("plot", IntervalAxis(scale)) + Tag("td"));
  return Section(
      "The whole model",
      "Speed-up over torch.compile with its confidence interval, from a confirmation run "
      "in fresh processes; the dashed line is no difference. Eager is shown beside.",
      Tag("div", {{"class", "scroll"}},
          Tag("table", {},
              HeadRow({{"variant", false},
                       {"eager", true},
                       {"compiler", true},
                       {"ours", true},
                       {"speed-up", false},
                       {"", true}}) +
                  Tag("tbody", {}, rows))));
}

/// Microseconds a call of the model: launches times one launch.
std::optional<double> PerCall(const Json& kernel, std::string_view key) {
  const auto us = Num(kernel, key);
  if (!us) return std::nullopt;
  return *us * Num(kernel, "launches").value_or(1);
}

/// The speed-up of one launch, or what became of the kernel.
Html KernelResult(const Json& kernel) {
  const auto compiler = Num(kernel, "compiler_us"), ours = Num(kernel, "ours_us");
  if (!compiler || !ours || *ours <= 0) {
    return Tag("span", {{"class", "soft small"}}, Text(Words(Str(kernel, "outcome"))));
  }
  return Tag("b", {}, Text(Times(*compiler / *ours)));
}

Html LaunchTimes(const Json& kernel) {
  Html times = Text(Microseconds(Num(kernel, "compiler_us")));
  if (const auto ours = Num(kernel, "ours_us")) times += Tag("br") + Text(Microseconds(ours));
  return times;
}

Html KernelChart(const Json& kernels) {
  if (kernels.empty()) return {};
  const size_t shown = std::min(kernels.size(), kChartedKernels);
  double full = 0;
  for (size_t i = 0; i < shown; ++i) {
    for (const char* key : {"compiler_us", "ours_us", "floor_us"}) {
      full = std::max(full, PerCall(kernels[i], key).value_or(0));
    }
  }
  Html rows;
  for (size_t i = 0; i < shown; ++i) {
    const Json& kernel = kernels[i];
    const auto compiler = PerCall(kernel, "compiler_us");
    const KernelBars bars{
        compiler.value_or(0), PerCall(kernel, "ours_us"), PerCall(kernel, "floor_us"),
        fmt::format("a call of the model: compiler {}, ours {}, floor {}", Microseconds(compiler),
                    Microseconds(PerCall(kernel, "ours_us")),
                    Microseconds(PerCall(kernel, "floor_us")))};
    const auto launches = static_cast<int64_t>(Num(kernel, "launches").value_or(1));
    rows +=
        Tag("tr", {{"class", i + 1 == shown ? "last" : ""}},
            Cell("name mono", Tag("span", {{"title", Str(kernel, "name")}},
                                  Text(Shorten(Str(kernel, "name"), 64)))) +
                Cell("right small", Text(fmt::format("{}\u00d7", launches))) +
                Cell("bars", BarsChart(bars, full)) + Cell("right small", LaunchTimes(kernel)) +
                Cell("right", KernelResult(kernel)) + Cell("", GateStrip(Field(kernel, "gates"))));
  }
  const auto swatch = [](std::string css_class, std::string_view what) {
    return Tag("li", {},
               Tag("svg", {{"width", "10"}, {"height", "10"}, {"aria-hidden", "true"}},
                   Tag("rect", {{"width", "10"},
                                {"height", "10"},
                                {"rx", "2"},
                                {"class", std::move(css_class)}})) +
                   Text(what));
  };
  const Html floor_swatch = Tag(
      "li", {},
      Tag("svg", {{"width", "10"}, {"height", "12"}, {"aria-hidden", "true"}},
          Tag("line", {{"x1", "5"}, {"x2", "5"}, {"y1", "0"}, {"y2", "12"}, {"class", "floor"}})) +
          Text("floor: what the memory or an empty launch costs"));
  const std::string more =
      shown < kernels.size() ? fmt::format(" The {} with the most to gain are shown.", shown) : "";
  return Section(
      "Kernels",
      "Bars are time a call of the model, numbers are time a launch. Gates: 1 static, 2 kernel "
      "correctness, 3 model correctness, 4 performance." +
          more,
      Tag("ul", {{"class", "legend"}},
          swatch("compiler", "compiler") + swatch("ours", "ours") + floor_swatch) +
          Tag("div", {{"class", "scroll"}},
              Tag("table", {},
                  HeadRow({{"kernel", false},
                           {"", true},
                           {"time a call", false},
                           {"a launch", true},
                           {"", true},
                           {"gates", false}}) +
                      Tag("tbody", {}, rows))));
}

Html Detail(std::string_view name, const std::string& value, bool mono = false) {
  if (value.empty()) return {};
  return Tag("dt", {}, Text(name)) + Tag("dd", {{"class", mono ? "mono" : ""}}, Text(value));
}

Html KernelDetails(const Json& kernels) {
  if (kernels.empty()) return {};
  Html items;
  for (const Json& kernel : kernels) {
    const std::string outcome = Str(kernel, "outcome"), reason = Str(kernel, "reason");
    Html list =
        Detail("outcome", Str(kernel, "message")) + Detail("change", Str(kernel, "change")) +
        Detail("made by", Words(Str(kernel, "origin"))) + Detail("proven", Str(kernel, "label")) +
        Detail("compiler's configuration", ConfigText(Field(kernel, "config_before")), true) +
        Detail("our configuration", ConfigText(Field(kernel, "config_after")), true);
    if (const auto candidates = Num(kernel, "candidates"); candidates && *candidates > 0) {
      list += Detail("candidates tried", fmt::format("{:.0f}", *candidates));
    }
    for (const Json& gate : Field(kernel, "gates")) {
      const std::string state = Str(gate, "state");
      if (state == "not_reached") continue;
      const std::string code = Str(gate, "reason");
      list += Detail(fmt::format("gate {:.0f}", Num(gate, "gate").value_or(0)),
                     fmt::format("{}{}: {}", Words(state),
                                 code.empty() || code == "ok" ? "" : " (" + Words(code) + ")",
                                 Str(gate, "message")));
    }
    list += Detail("key", Str(kernel, "key"), true);
    const std::string why = reason.empty() || reason == "ok" ? "" : Words(reason);
    items += Tag("details", {},
                 Tag("summary", {},
                     Tag("span", {{"class", "mono"}}, Text(Str(kernel, "name"))) +
                         Tag("span", {{"class", "soft small"}},
                             Text(Words(outcome) + (why.empty() ? "" : ": " + why)))) +
                     Tag("dl", {}, list));
  }
  return Section("What was changed, and what was kept and why", "Open a kernel for its details.",
                 items);
}

Html TimeSpent(const Json& steps) {
  std::vector<Share> shares;
  for (const Json& step : steps) {
    const double seconds = Num(step, "seconds").value_or(0);
    const std::string state = Str(step, "state");
    shares.push_back({Str(step, "name"),
                      Seconds(seconds) + (state == "done" ? "" : " (" + Words(state) + ")"),
                      seconds});
  }
  const Html chart = SharesChart(shares);
  if (chart.markup().empty()) return {};
  return Section("Where the time of this run went", "", chart);
}

Html Footer(const Json& data) {
  std::string text = fmt::format("Run {}", Str(data, "run"));
  const Json& gpu = Field(data, "gpu");
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format(" \u00b7 {} {}", name, value);
  };
  add("policy", Field(data, "policy").is_string() ? Field(data, "policy").get<std::string>() : "");
  add("GPU", Str(gpu, "uuid"));
  add("driver", Str(Field(data, "versions"), "driver"));
  add("python", Str(Field(data, "versions"), "python"));
  add("model SHA-256", Str(Field(data, "model"), "sha256"));
  add("pack", Str(Field(data, "outcome"), "pack"));
  return Tag("footer", {}, Text(text));
}

}  // namespace

std::string ReportPage(const Json& data) {
  const std::string model = FileName(Str(Field(data, "model"), "file"));
  // The policy lets the page load nothing and run nothing, whatever is in it.
  const Html head =
      Tag("meta", {{"charset", "utf-8"}}) +
      Tag("meta", {{"http-equiv", "Content-Security-Policy"},
                   {"content", "default-src 'none'; style-src 'unsafe-inline'"}}) +
      Tag("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
      Tag("title", {}, Text("KernelOPT: " + model)) + StyleSheet();
  const Json& kernels = Field(data, "kernels");
  const Html body = Header(data) + Tiles(data) + Variants(Field(data, "variants")) +
                    KernelChart(kernels) + KernelDetails(kernels) +
                    TimeSpent(Field(data, "steps")) + Footer(data);
  return (Verbatim("<!doctype html>\n") +
          Tag("html", {{"lang", "en"}},
              Tag("head", {}, head) + Tag("body", {}, Tag("main", {}, body))))
             .markup() +
         "\n";
}

}  // namespace kernelopt
