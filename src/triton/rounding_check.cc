#include "triton/rounding_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ttir/facts.h"

namespace kernelopt {
namespace {

int FloatBits(std::string_view type) {
  if (type == "bf16") return 16;
  if (!IsFloatType(type)) return 0;
  int bits = 0;
  for (char c : type.substr(1)) {
    if (c < '0' || c > '9') break;
    bits = bits * 10 + (c - '0');
  }
  return bits;
}

class Tracer {
 public:
  explicit Tracer(const TtirModule& module)
      : module_(module), rounded_(module.values.size(), false) {}

  std::set<std::string> Trace() {
    do {  // marks only grow, so this ends
      changed_ = false;
      for (const TtirFunction& function : module_.functions) Flow(function.body, nullptr);
    } while (changed_);
    std::set<std::string> types;
    WalkOps(module_, [&](const TtirOp& op) {
      if (Conversion(op) > 0 && rounded_[op.operands[0]]) types.insert(Element(op.operands[0]));
    });
    return types;
  }

 private:
  std::string Element(ValueId id) const { return std::string(ElementType(module_.TypeOf(id))); }

  /// Above 0 where an operation widens a float, below where it narrows one.
  int Conversion(const TtirOp& op) const {
    bool converts =
        op.name == "arith.truncf" || op.name == "arith.extf" || op.name == "tt.fp_to_fp";
    if (!converts || op.operands.size() != 1 || op.results.size() != 1) return 0;
    return FloatBits(Element(op.results[0])) - FloatBits(Element(op.operands[0]));
  }

  void Mark(ValueId id) {
    if (rounded_[id]) return;
    rounded_[id] = changed_ = true;
  }

  /// Marks those of `to` that are of a type that a marked one of `from` has.
  void Pass(const std::vector<ValueId>& from, const std::vector<ValueId>& to) {
    for (ValueId source : from) {
      if (!rounded_[source]) continue;
      for (ValueId target : to) {
        if (Element(target) == Element(source)) Mark(target);
      }
    }
  }

  /// `outer` is the operation that holds the region, null for a function.
  void Flow(const TtirRegion& region, const TtirOp* outer) {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        if (Conversion(op) < 0) {
          Mark(op.results[0]);
        } else if (op.name != "tt.load") {
          Pass(op.operands, op.results);
          Pass(op.initial, op.results);
        }
        for (const TtirRegion& inner : op.regions) {
          for (const TtirBlock& entered : inner.blocks) {
            Pass(op.operands, entered.arguments);
            Pass(op.initial, entered.arguments);
            Pass(op.results, entered.arguments);  // what a loop carries
          }
          Flow(inner, &op);
        }
        for (const TtirOp::Successor& successor : op.successors) {
          for (const TtirBlock& target : region.blocks) Pass(successor.arguments, target.arguments);
        }
        // What a region ends with is what its operation gives.
        if (outer != nullptr && op.results.empty()) Pass(op.operands, outer->results);
      }
    }
  }

  const TtirModule& module_;
  std::vector<bool> rounded_;
  bool changed_ = false;
};

}  // namespace

std::set<std::string> TypesRoundedThrough(const TtirModule& module) {
  return Tracer(module).Trace();
}

std::vector<StaticFinding> CompareRounding(const TtirModule& candidate,
                                           const TtirModule& baseline) {
  std::vector<StaticFinding> findings;
  std::set<std::string> known = TypesRoundedThrough(baseline);
  // Rounding to what the compiler's kernel computes in loses nothing against it.
  int widest = 0;
  for (const std::string& type : ReadFacts(baseline).arithmetic_types) {
    widest = std::max(widest, FloatBits(type));
  }
  for (const std::string& type : TypesRoundedThrough(candidate)) {
    if (known.contains(type) || (widest > 0 && FloatBits(type) >= widest)) continue;
    findings.push_back({"narrower_rounding",
                        fmt::format("it rounds to {} and widens again, where the compiler's kernel "
                                    "does not",
                                    type),
                        0, 0});
  }
  return findings;
}

}  // namespace kernelopt
