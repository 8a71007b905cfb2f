#include "necessity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

namespace kernelopt {
namespace {

/// Every check of gate 1 (docs/gates.md).
constexpr const char* kStaticChecks[] = {"syntax_error",
                                         "missing_entry",
                                         "duplicate_function",
                                         "entry_parameters",
                                         "import",
                                         "top_level_statement",
                                         "decorator",
                                         "parameter_default",
                                         "parameter_kind",
                                         "annotation",
                                         "forbidden_statement",
                                         "forbidden_expression",
                                         "forbidden_target",
                                         "loop_form",
                                         "unknown_name",
                                         "unknown_call",
                                         "unknown_attribute",
                                         "forbidden_attribute",
                                         "module_as_value",
                                         "rebinds_name",
                                         "keyword_argument",
                                         "cache_hint",
                                         "unsupported_form",
                                         "narrower_arithmetic",
                                         "narrower_rounding",
                                         "dot_precision",
                                         "added_library_function",
                                         "added_math_function",
                                         "added_atomics",
                                         "added_assembly",
                                         "added_hint",
                                         "volatile_access",
                                         "unusual_operation",
                                         "dropped_assert",
                                         "reads_output",
                                         "out_of_bounds",
                                         "ptx_clock",
                                         "ptx_special_register",
                                         "ptx_sleep",
                                         "ptx_trap",
                                         "ptx_volatile",
                                         "ptx_inter_grid",
                                         "ptx_atomic",
                                         "ptx_call",
                                         "ptx_reduced_precision",
                                         "too_much_shared_memory",
                                         "too_many_threads",
                                         "unsupported_launch"};

/// And of gate 2, as CheckJob and KernelRule call them.
constexpr const char* kChecks[] = {
    "wrong_value",   "wrong_integer",  "wrong_nonfinite", "wrote_outside",
    "changed_input", "not_written",    "second_poison",   "repeats",
    "back_to_back",  "exact",          "guard_pages",     "uniform",
    "normal",        "normal_shifted", "large",           "small",
    "log_uniform",   "ties",           "cancelling",      "special"};

bool IsBad(const Item& item) {
  return std::ranges::find(item.expected, "ok") == item.expected.end();
}

/// What was found for one check.
struct Need {
  std::vector<std::string> alone;  ///< bad candidates that come through without it
  /// Bad candidates that other checks find as well, and which: layers, each of which
  /// would do.
  std::vector<std::string> layered;
  std::set<std::string> others;
};

int PrintTable(const std::map<std::string, Need>& needs) {
  int unneeded = 0, alone = 0;
  for (const auto& [check, need] : needs) {
    std::string text = "nothing in the corpus needs it";
    if (!need.alone.empty()) {
      text = fmt::format("accepted without it: {}", fmt::join(need.alone, ", "));
      ++alone;
    } else if (!need.layered.empty()) {
      text = fmt::format("{} also found by {}", need.layered.front(), fmt::join(need.others, ", "));
    } else {
      ++unneeded;
    }
    fmt::print("{:<24} {:>3} {:>3}  {}\n", check, need.alone.size(), need.layered.size(),
               text.substr(0, 130));
  }
  fmt::print(
      "{} checks: {} that a candidate passes without, {} that others back, {} that nothing "
      "needs\n",
      needs.size(), alone, static_cast<int>(needs.size()) - alone - unneeded, unneeded);
  return unneeded;
}

}  // namespace

int PrintStaticNecessity(const std::vector<Item>& items) {
  std::map<std::string, Need> needs;
  for (const char* check : kStaticChecks) needs[check];
  for (const Item& item : items) {
    if (!IsBad(item)) continue;
    const std::string name = item.file.substr(item.file.find('/') + 1);
    for (const std::string& code : item.static_codes) {
      const auto need = needs.find(code);
      if (need == needs.end()) continue;
      if (item.static_codes.size() == 1 && !item.compiled.cubin_path.empty()) {
        need->second.alone.push_back(name);
      } else if (item.static_codes.size() > 1) {
        need->second.layered.push_back(name);
        need->second.others.insert(item.static_codes.begin(), item.static_codes.end());
        need->second.others.erase(code);
      }
    }
  }
  return PrintTable(needs);
}

int PrintNecessity(Corpus& corpus, std::vector<Item>& items, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  std::map<std::string, Need> needs;
  for (const char* check : kChecks) needs[check];
  for (Item& item : items) {
    if (!IsBad(item) || !item.IsOfGate2() || !item.verdict.accepted) continue;
    const Verdict full = corpus.Gate2(item);
    // Its own check first, then all others: several can be the only one to find something.
    std::vector<std::string> checks = {full.reason};
    if (full.reason == "hung") continue;  // a time limit is no check
    for (const char* check : kChecks) {
      // What makes the device sick costs a new judge each time.
      const bool relevant = full.reason != "crashed" || std::string_view(check) == "guard_pages";
      if (check != full.reason && relevant) checks.push_back(check);
    }
    for (const std::string& check : checks) {
      if (!needs.contains(check)) continue;
      // One that shows the need of a check is enough, but for its own.
      if (check != full.reason && needs[check].alone.size() >= 2) continue;
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      if (passed.count() > seconds) continue;
      const Verdict verdict = corpus.Gate2(item, {check});
      fmt::print("{:<34} {:<16} without {:<16} {}\n", item.file, full.reason, check,
                 verdict.accepted ? "ACCEPTED" : verdict.reason);
      const std::string name = item.file.substr(item.file.find('/') + 1);
      if (verdict.accepted && !full.accepted) needs[check].alone.push_back(name);
      if (!verdict.accepted && check == full.reason) {
        needs[check].layered.push_back(name);
        needs[check].others.insert(verdict.reason);
      }
    }
  }
  return PrintTable(needs);
}

}  // namespace kernelopt
