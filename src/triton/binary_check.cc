#include "triton/binary_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>

namespace kernelopt {
namespace {

int Bits(std::string_view type) {
  if (type == "bf16") return 16;
  int bits = 0;
  for (size_t i = 1; i < type.size() && type[i] >= '0' && type[i] <= '9'; ++i)
    bits = bits * 10 + (type[i] - '0');
  return bits;
}

std::vector<std::string> Added(const std::set<std::string>& candidate,
                               const std::set<std::string>& baseline) {
  std::vector<std::string> added;
  for (const std::string& item : candidate)
    if (!baseline.contains(item)) added.push_back(item);
  return added;
}

/// Functions whose result is the exact one, rounded once: they can't be less exact
/// than whatever the compiler's kernel does.
bool IsExact(std::string_view name) {
  static const std::set<std::string_view> kExact = {
      "math.absf", "math.absi",     "math.fma",        "math.floor",
      "math.ceil", "math.copysign", "tt.precise_sqrt", "tt.precise_divf"};
  return kExact.contains(name);
}

/// What an instruction or operand of PTX is banned for, or "".
std::string_view BanOf(std::string_view word) {
  if (word.starts_with("%clock") || word.starts_with("%globaltimer")) return "ptx_clock";
  for (std::string_view name :
       {"%smid", "%nsmid", "%warpid", "%nwarpid", "%gridid", "%pm", "%envreg"})
    if (word.starts_with(name)) return "ptx_special_register";
  if (word.starts_with("nanosleep")) return "ptx_sleep";
  if (word.starts_with("trap") || word.starts_with("brkpt")) return "ptx_trap";
  if (word.find(".volatile") != std::string_view::npos ||
      word.find(".relaxed") != std::string_view::npos ||
      word.find(".acquire") != std::string_view::npos ||
      word.find(".release") != std::string_view::npos)
    return "ptx_volatile";
  if (word.starts_with("membar") || word.starts_with("fence") ||
      word.starts_with("griddepcontrol") || word.starts_with("barrier.cluster"))
    return "ptx_inter_grid";
  if (word.starts_with("red.") || word.starts_with("atom.") || word.starts_with("multimem"))
    return "ptx_atomic";
  if (word == "call" || word.starts_with("call.")) return "ptx_call";
  if (word.find(".tf32") != std::string_view::npos) return "ptx_reduced_precision";
  return "";
}

struct Ban {
  std::string word;
  int line;
};

std::map<std::string_view, std::vector<Ban>> Bans(std::string_view ptx) {
  std::map<std::string_view, std::vector<Ban>> bans;
  int line = 1;
  for (size_t i = 0; i < ptx.size();) {
    char c = ptx[i];
    if (c == '\n') {
      ++line;
      ++i;
    } else if (c == '/' && i + 1 < ptx.size() && ptx[i + 1] == '/') {
      while (i < ptx.size() && ptx[i] != '\n') ++i;
    } else if (c == '"') {
      for (++i; i < ptx.size() && ptx[i] != '"' && ptx[i] != '\n'; ++i) {
      }
      if (i < ptx.size() && ptx[i] == '"') ++i;
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '%' || c == '_' || c == '.' ||
               c == '$') {
      size_t begin = i;
      while (i < ptx.size() && (std::isalnum(static_cast<unsigned char>(ptx[i])) || ptx[i] == '%' ||
                                ptx[i] == '_' || ptx[i] == '.' || ptx[i] == '$' || ptx[i] == ':'))
        ++i;
      std::string_view word = ptx.substr(begin, i - begin);
      if (std::string_view ban = BanOf(word); !ban.empty())
        bans[ban].push_back({std::string(word), line});
    } else {
      ++i;
    }
  }
  return bans;
}

}  // namespace

std::vector<StaticFinding> CompareTtir(const TtirFacts& candidate, const TtirFacts& baseline) {
  std::vector<StaticFinding> findings;
  auto add = [&](std::string code, std::string message) {
    findings.push_back({std::move(code), std::move(message), 0, 0});
  };
  // Only wider types than all of the baseline's may be new.
  int widest = 0;
  for (const std::string& type : baseline.arithmetic_types) widest = std::max(widest, Bits(type));
  for (const std::string& type : Added(candidate.arithmetic_types, baseline.arithmetic_types)) {
    if (Bits(type) < 32 || Bits(type) < widest)
      add("narrower_arithmetic",
          fmt::format("it computes in {}, where the compiler's kernel does not", type));
  }
  int own_widest = 0;
  for (const std::string& type : candidate.arithmetic_types)
    own_widest = std::max(own_widest, Bits(type));
  if (own_widest > 0 && own_widest < widest && findings.empty())
    add("narrower_arithmetic",
        fmt::format("it computes in floats of at most {} bits, the compiler's kernel of {}",
                    own_widest, widest));
  for (const std::string& type : Added(candidate.narrowed_types, baseline.narrowed_types))
    // Rounding sums in double to what the compiler's kernel computes in loses nothing.
    if (widest == 0 || Bits(type) < widest)
      add("narrower_rounding",
          fmt::format("it rounds to {} and widens again, where the compiler's kernel does not",
                      type));
  for (const auto& [kind, count] : candidate.dots) {
    auto known = baseline.dots.find(kind);
    if (known == baseline.dots.end() && !kind.ends_with(" ieee"))
      add("dot_precision",
          fmt::format("it has a dot of {}, which the compiler's kernel has not", kind));
    // A new dot even in full precision reorders a reduction; its operands must
    // not be narrower than what the baseline computes in.
    if (known == baseline.dots.end() && kind.ends_with(" ieee") &&
        Bits(kind.substr(0, kind.find(' '))) < widest)
      add("dot_precision", fmt::format("it has a dot of {} operands, narrower than the compiler's "
                                       "arithmetic",
                                       kind));
  }
  if (candidate.atomics > baseline.atomics)
    add("added_atomics", fmt::format("it has {} atomic operations, the compiler's kernel {}",
                                     candidate.atomics, baseline.atomics));
  if (candidate.inline_asm > baseline.inline_asm)
    add("added_assembly", fmt::format("it has {} pieces of assembly, the compiler's kernel {}",
                                      candidate.inline_asm, baseline.inline_asm));
  for (const std::string& symbol : Added(candidate.extern_symbols, baseline.extern_symbols))
    // "__nv_exp" is "__nv_expf" for doubles.
    if (!baseline.extern_symbols.contains(symbol + "f"))
      add("added_library_function",
          fmt::format("it calls {}, which the compiler's kernel does not", symbol));
  for (const std::string& name : Added(candidate.math_functions, baseline.math_functions))
    if (!IsExact(name))
      add("added_math_function",
          fmt::format("it has {}, which the compiler's kernel has not and which may be less exact",
                      name));
  if (candidate.volatile_access && !baseline.volatile_access)
    add("volatile_access", "it has a volatile load, which the compiler's kernel has not");
  for (const std::string& hint : Added(candidate.hints, baseline.hints))
    add("added_hint", fmt::format("it claims {}, which the compiler's kernel does not", hint));
  for (const std::string& op : Added(candidate.unusual_ops, baseline.unusual_ops))
    add("unusual_operation", fmt::format("it has {}, which is not known to be safe", op));
  if (candidate.asserts < baseline.asserts)
    add("dropped_assert", fmt::format("it has {} assertions, the compiler's kernel {}",
                                      candidate.asserts, baseline.asserts));
  return findings;
}

std::vector<StaticFinding> ComparePtx(std::string_view candidate, std::string_view baseline) {
  std::vector<StaticFinding> findings;
  auto known = Bans(baseline);
  for (const auto& [code, bans] : Bans(candidate)) {
    std::set<std::string> words;
    for (const Ban& ban : known[code]) words.insert(ban.word);
    for (const Ban& ban : bans) {
      if (words.contains(ban.word)) continue;
      findings.push_back(
          {std::string(code),
           fmt::format("the PTX has '{}', which the compiler's kernel has not", ban.word), ban.line,
           1});
      break;
    }
  }
  return findings;
}

std::vector<StaticFinding> CheckLimits(const LaunchRecord& record, const DeviceFacts& device) {
  std::vector<StaticFinding> findings;
  if (record.shared_bytes > device.shared_bytes_per_block) {
    findings.push_back({"too_much_shared_memory",
                        fmt::format("it needs {} bytes of shared memory, this device has {}",
                                    record.shared_bytes, device.shared_bytes_per_block),
                        0, 0});
  }
  if (record.threads > 1024 || record.threads < 32) {
    findings.push_back({"too_many_threads",
                        fmt::format("it needs {} threads a CTA, wanted 32 to 1024", record.threads),
                        0, 0});
  }
  if (record.num_ctas != 1 || record.cooperative || record.cluster != std::array<int, 3>{1, 1, 1}) {
    findings.push_back({"unsupported_launch",
                        "it wants a cluster or a cooperative launch, which a drop-in can't have", 0,
                        0});
  }
  return findings;
}

}  // namespace kernelopt
