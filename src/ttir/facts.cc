#include "ttir/facts.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace kernelopt {
namespace {

/// The text after `key` up to a separator, or "".
std::string AttributeAfter(const std::string& attributes, std::string_view key) {
  size_t at = attributes.find(key);
  if (at == std::string::npos) return "";
  at += key.size();
  while (at < attributes.size() &&
         (attributes[at] == ' ' || attributes[at] == '=' || attributes[at] == '"'))
    ++at;
  size_t end = at;
  while (end < attributes.size() && (isalnum(static_cast<unsigned char>(attributes[end])) ||
                                     attributes[end] == '_' || attributes[end] == '.'))
    ++end;
  return attributes.substr(at, end - at);
}

int FloatBits(std::string_view type) {
  if (type == "bf16") return 16;
  if (!IsFloatType(type)) return 0;
  int bits = 0;
  for (size_t i = 1; i < type.size() && type[i] >= '0' && type[i] <= '9'; ++i)
    bits = bits * 10 + (type[i] - '0');
  return bits;
}

bool IsPlainArithmetic(std::string_view name) {
  static const std::set<std::string_view> kOps = {
      "arith.addf",           "arith.subf",      "arith.mulf",     "arith.divf",
      "arith.remf",           "arith.negf",      "arith.maximumf", "arith.minimumf",
      "arith.maxnumf",        "arith.minnumf",   "arith.cmpf",     "tt.clampf",
      "tt.precise_sqrt",      "tt.precise_divf", "tt.dot",         "tt.dot_scaled",
      "tt.extern_elementwise"};
  return kOps.contains(name) || name.starts_with("math.");
}

/// What Inductor's generated kernels are made of.
bool IsUsual(std::string_view name) {
  static const std::set<std::string_view> kOps = {"tt.func",
                                                  "tt.return",
                                                  "tt.load",
                                                  "tt.store",
                                                  "tt.addptr",
                                                  "tt.splat",
                                                  "tt.unsplat",
                                                  "tt.broadcast",
                                                  "tt.expand_dims",
                                                  "tt.reshape",
                                                  "tt.trans",
                                                  "tt.join",
                                                  "tt.split",
                                                  "tt.cat",
                                                  "tt.make_range",
                                                  "tt.get_program_id",
                                                  "tt.get_num_programs",
                                                  "tt.bitcast",
                                                  "tt.fp_to_fp",
                                                  "tt.clampf",
                                                  "tt.precise_sqrt",
                                                  "tt.precise_divf",
                                                  "tt.mulhiui",
                                                  "tt.reduce",
                                                  "tt.reduce.return",
                                                  "tt.scan",
                                                  "tt.scan.return",
                                                  "tt.extern_elementwise",
                                                  "tt.dot",
                                                  "tt.assert",
                                                  "tt.gather",
                                                  "tt.atomic_rmw",
                                                  "tt.atomic_cas",
                                                  "tt.elementwise_inline_asm",
                                                  "scf.for",
                                                  "scf.while",
                                                  "scf.if",
                                                  "scf.yield",
                                                  "scf.condition",
                                                  "cf.br",
                                                  "cf.cond_br",
                                                  "cf.assert",
                                                  "gpu.barrier",
                                                  "ttg.barrier",
                                                  "ttg.local_barrier",
                                                  "ub.poison"};
  return kOps.contains(name) || name.starts_with("arith.") || name.starts_with("math.");
}

}  // namespace

TtirFacts ReadFacts(const TtirModule& module) {
  TtirFacts facts;
  std::set<std::string> widened_from, narrowed_to;
  WalkOps(module, [&](const TtirOp& op) {
    auto element = [&](ValueId id) { return std::string(ElementType(module.TypeOf(id))); };
    facts.loads += op.name == "tt.load";
    facts.stores += op.name == "tt.store";
    facts.reduces += op.name == "tt.reduce";
    facts.scans += op.name == "tt.scan";
    facts.asserts += op.name == "tt.assert" || op.name == "cf.assert";
    facts.atomics += op.name.starts_with("tt.atomic");
    facts.inline_asm += op.name == "tt.elementwise_inline_asm";
    if (op.name == "tt.load" || op.name == "tt.store") {
      facts.volatile_access |= AttributeAfter(op.attributes, "isVolatile") == "true" ||
                               AttributeAfter(op.attributes, "cacheModifier") == "cv";
    }
    if (op.name == "tt.extern_elementwise") {
      facts.extern_symbols.insert(AttributeAfter(op.attributes, "symbol"));
    }
    if (op.name.starts_with("math.") || op.name.starts_with("tt.precise_") ||
        op.name == "arith.divf")
      facts.math_functions.insert(op.name);
    if (op.name == "tt.dot" && !op.operands.empty()) {
      std::string precision = AttributeAfter(op.attributes, "inputPrecision");
      if (precision.empty()) precision = "ieee";
      ++facts.dots[element(op.operands[0]) + " " + precision];
    }
    if (IsPlainArithmetic(op.name)) {
      for (ValueId id : op.operands)
        if (std::string type = element(id); IsFloatType(type)) facts.arithmetic_types.insert(type);
      for (ValueId id : op.results)
        if (std::string type = element(id); IsFloatType(type)) facts.arithmetic_types.insert(type);
    }
    if ((op.name == "arith.truncf" || op.name == "arith.extf" || op.name == "tt.fp_to_fp") &&
        op.operands.size() == 1 && op.results.size() == 1) {
      std::string from = element(op.operands[0]), to = element(op.results[0]);
      if (FloatBits(to) < FloatBits(from)) narrowed_to.insert(to);
      if (FloatBits(to) > FloatBits(from)) widened_from.insert(from);
    }
    for (std::string_view hint : {"tt.divisibility", "tt.contiguity", "tt.constancy"})
      if (op.attributes.find(hint) != std::string::npos) facts.hints.insert(std::string(hint));
    if (!IsUsual(op.name)) facts.unusual_ops.insert(op.name);
  });
  std::set_intersection(narrowed_to.begin(), narrowed_to.end(), widened_from.begin(),
                        widened_from.end(),
                        std::inserter(facts.narrowed_types, facts.narrowed_types.end()));
  return facts;
}

}  // namespace kernelopt
