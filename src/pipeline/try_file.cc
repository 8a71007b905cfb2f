#include "pipeline/try_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>

#include "inductor/module.h"
#include "pack/kernel_file.h"

namespace kernelopt {
namespace {

constexpr std::string_view kMark = "# Configuration:";
/// Lines of a comment that go on with the sentence before them (pack/kernel_file.cc).
constexpr std::string_view kContinued = "#   ";

struct ConfigurationLine {
  std::string text;
  int line = 0;
};

std::vector<ConfigurationLine> ConfigurationLines(const std::string& text) {
  std::vector<ConfigurationLine> found;
  bool open = false;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line) && line.starts_with('#');) {
    ++number;
    if (line.starts_with(kMark)) {
      found.push_back({line.substr(kMark.size()), number});
      open = true;
    } else if (open && line.starts_with(kContinued)) {
      found.back().text += line.substr(kContinued.size() - 1);
    } else {
      open = false;
    }
  }
  return found;
}

bool IsConstexpr(const SearchSubject& subject, const std::string& name) {
  if (subject.sites.front().compiler_config.constexprs.contains(name)) return true;
  const KernelArgument* argument = subject.kernel->FindArgument(name);
  return argument != nullptr && argument->annotation == "tl.constexpr";
}

Result<LaunchConfig> ParseConfiguration(const ConfigurationLine& line, const std::string& file,
                                        const SearchSubject& subject) {
  LaunchConfig config = subject.sites.front().compiler_config;
  std::istringstream in(line.text);
  for (std::string item; in >> item;) {
    auto fail = [&](const std::string& wanted) {
      return Fail(ErrorKind::kUsage, "bad_configuration",
                  fmt::format("found '{}', wanted {}", item, wanted),
                  fmt::format("{}:{}", file, line.line));
    };
    size_t equal = item.find('=');
    int value = 0;
    const char* end = item.data() + item.size();
    auto [rest, error] =
        std::from_chars(item.data() + std::min(equal, item.size() - 1) + 1, end, value);
    if (equal == std::string::npos || error != std::errc() || rest != end || value < 1) {
      return fail("NAME=NUMBER with a number above 0");
    }
    std::string name = item.substr(0, equal);
    if (name == "warps") {
      config.num_warps = value;
    } else if (name == "stages") {
      config.num_stages = value;
    } else if (name == "ctas") {
      config.num_ctas = value;
    } else if (name == "maxnreg") {
      config.maxnreg = value;
    } else if (IsConstexpr(subject, name)) {
      config.constexprs[name] = value;
    } else {
      return fail("warps, stages, ctas, maxnreg or a constexpr of the kernel");
    }
  }
  return config;
}

}  // namespace

Result<std::vector<Replacement>> ReadCandidates(const std::string& text, const std::string& file,
                                                const SearchSubject& subject) {
  std::vector<LaunchConfig> configs;
  for (const ConfigurationLine& line : ConfigurationLines(text)) {
    configs.push_back(KOPT_TRY(ParseConfiguration(line, file, subject)));
  }
  if (configs.empty()) configs.push_back(subject.sites.front().compiler_config);
  std::vector<Replacement> candidates;
  std::set<std::string> known;
  for (const LaunchConfig& config : configs) {
    Replacement replacement;
    replacement.kernel_key = subject.key;
    replacement.origin = "try";
    replacement.change = fmt::format("written by hand, launched with {}", config.ToString());
    ReplacementStep step;
    step.kernel_text = std::string(KernelTextOf(text));
    step.config = config;
    replacement.steps.push_back(std::move(step));
    if (known.insert(replacement.Id()).second) candidates.push_back(std::move(replacement));
  }
  return candidates;
}

}  // namespace kernelopt
