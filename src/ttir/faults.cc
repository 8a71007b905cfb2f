#include "ttir/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "ttir/expressions.h"
#include "ttir/locations.h"

namespace kernelopt {
namespace {

constexpr size_t kMostOfAKind = 2;
/// Smaller terms can vanish in the rounding of what they are added to.
constexpr double kLeastTerm = 1e-3;
/// N - 1 instead of larger N is within some rounding of float32.
constexpr double kMostCount = 65536;

struct Edit {
  TtirSpan span;
  std::string text;
};

/// The number of "dense<1.0e-05> : tensor<..>" or "1000 : i32"; none for what is no plain
/// number.
std::optional<double> NumberOf(const TtirOp& op) {
  std::string_view text = op.attributes;
  if (const size_t at = text.find("dense<"); at != std::string_view::npos) {
    text.remove_prefix(at + 6);
  }
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (text.starts_with("0xFF800000")) return -INFINITY;
  if (text.starts_with("0x")) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::string Constant(const std::string& type, std::string_view number) {
  return type.starts_with("tensor") ? fmt::format("arith.constant dense<{}> : {}", number, type)
                                    : fmt::format("arith.constant {} : {}", number, type);
}

class Planter {
 public:
  explicit Planter(const TtirModule& module) : module_(module) {
    if (const TtirFunction* entry = module.Entry(); entry != nullptr) Collect(entry->body, false);
  }

  std::vector<Fault> Plant() {
    for (const TtirOp* op : ops_) {
      MaskShort(*op);
      LastTile(*op);
      WrongPad(*op);
      TermDropped(*op);
      CountLess(*op);
      Tf32Input(*op);
    }
    std::vector<Fault> faults;
    for (const char* name :
         {"mask_short", "last_tile", "wrong_pad", "term_dropped", "count_less", "tf32_input"}) {
      std::vector<Fault>& found = found_[name];
      // The first and the last: the ends of a kernel differ most.
      for (size_t i = 0; i < std::min(found.size(), kMostOfAKind); ++i) {
        faults.push_back(std::move(i == 0 ? found.front() : found.back()));
      }
    }
    return faults;
  }

 private:
  /// Operations outside of the regions of reductions and scans.
  void Collect(const TtirRegion& region, bool inside) {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        if (inside) continue;
        ops_.push_back(&op);
        for (ValueId id : op.results) definitions_[id] = &op;
        if (op.name == "tt.store") {
          const std::string type = PointeeType(module_.TypeOf(op.operands.at(0)));
          const std::string_view element = ElementType(type);
          has_single_ |= element == "f32";
          has_short_ |= IsFloatType(element) && element != "f32" && element != "f64";
          if (op.operands.size() > 2) MarkMask(op.operands[2]);
        }
        if (op.name == "tt.reduce" && !op.operands.empty()) {
          for (ValueId id : op.operands) reduced_[id] = &op;
        }
        for (const TtirRegion& inner : op.regions) {
          Collect(inner, op.name == "tt.reduce" || op.name == "tt.scan");
        }
      }
    }
  }

  const TtirOp* Definition(ValueId id) const {
    const auto found = definitions_.find(id);
    return found == definitions_.end() ? nullptr : found->second;
  }

  /// Marks the comparisons that a store's mask is made of.
  void MarkMask(ValueId id) {
    const TtirOp* op = Definition(id);
    if (op == nullptr) return;
    if (op->name == "arith.cmpi") store_masks_.insert(op);
    if (op->name == "arith.andi" || op->name == "tt.broadcast" || op->name == "tt.expand_dims" ||
        op->name == "tt.splat") {
      for (ValueId operand : op->operands) MarkMask(operand);
    }
  }

  void Add(const char* name, const TtirOp& op, std::vector<Edit> edits) {
    std::string text = module_.text;
    std::ranges::sort(edits, std::greater(), [](const Edit& edit) { return edit.span.begin; });
    for (const Edit& edit : edits) {
      text.replace(edit.span.begin, edit.span.end - edit.span.begin, edit.text);
    }
    found_[name].push_back({name, op.line, op.source_line, WithoutLocationNames(text)});
  }

  /// The `index`-th operand's place in an operation's text.
  std::optional<TtirSpan> Use(const TtirOp& op, size_t index) const {
    for (const TtirUse& use : module_.uses) {
      if (use.span.begin < op.span.begin || use.span.begin >= op.span.end) continue;
      if (index == 0) return use.span;
      --index;
    }
    return std::nullopt;
  }

  /// Edits that give an operation another constant as its `index`-th operand.
  std::optional<std::vector<Edit>> Swap(const TtirOp& op, size_t index, std::string_view number) {
    const auto use = Use(op, index);
    if (!use || index >= op.operands.size()) return std::nullopt;
    const std::string& type = module_.TypeOf(op.operands[index]);
    return std::vector<Edit>{
        {{op.span.begin, op.span.begin}, fmt::format("%kopt_fault = {}\n", Constant(type, number))},
        {*use, "%kopt_fault"}};
  }

  std::optional<double> ConstantOperand(const TtirOp& op, size_t index) const {
    if (index >= op.operands.size()) return std::nullopt;
    const TtirOp* definition = Definition(op.operands[index]);
    if (definition == nullptr || definition->name != "arith.constant") return std::nullopt;
    return NumberOf(*definition);
  }

  void MaskShort(const TtirOp& op) {
    if (op.name != "arith.cmpi" || !op.attributes.starts_with("slt")) return;
    if (!store_masks_.contains(&op) && (has_short_ || !has_single_)) return;
    const auto bound = ConstantOperand(op, 1);
    if (!bound || *bound < 2) return;
    if (auto edits = Swap(op, 1, fmt::format("{:.0f}", *bound - 1)))
      Add("mask_short", op, std::move(*edits));
  }

  void LastTile(const TtirOp& op) {
    if (op.name != "scf.for" || op.results.empty()) return;
    const auto low = ConstantOperand(op, 0), high = ConstantOperand(op, 1),
               step = ConstantOperand(op, 2);
    if (!low || !high || !step || *step < 1 || *high - *low <= *step) return;
    const double tiles = std::ceil((*high - *low) / *step);
    if (auto edits = Swap(op, 1, fmt::format("{:.0f}", *low + (tiles - 1) * *step)))
      Add("last_tile", op, std::move(*edits));
  }

  /// True when a condition is known to differ along an axis.
  bool Varies(ValueId id, size_t axis) const {
    const TtirOp* op = Definition(id);
    const auto shape = TensorShape(module_.TypeOf(id));
    if (op == nullptr || axis >= shape.size() || shape[axis] < 2) return false;
    if (op->name == "arith.cmpi") return true;
    if (op->name != "arith.andi" && op->name != "tt.broadcast") return false;
    return std::ranges::any_of(op->operands,
                               [&](ValueId operand) { return Varies(operand, axis); });
  }

  void WrongPad(const TtirOp& op) {
    if (op.name != "arith.select" || op.results.size() != 1) return;
    const auto reduced = reduced_.find(op.results[0]);
    if (reduced == reduced_.end() || !IsFloatType(ElementType(module_.TypeOf(op.results[0]))))
      return;
    size_t axis = 0;
    const std::string& attributes = reduced->second->attributes;
    const size_t at = attributes.find("axis = ");
    if (at == std::string::npos) return;
    axis = static_cast<size_t>(attributes[at + 7] - '0');
    const auto value = ConstantOperand(op, 2);
    if (!value || !Varies(op.operands[0], axis)) return;
    if (auto edits = Swap(op, 2, *value == 0 ? "1.000000e+00" : "0.000000e+00"))
      Add("wrong_pad", op, std::move(*edits));
  }

  void TermDropped(const TtirOp& op) {
    if ((op.name != "arith.addf" && op.name != "arith.subf") || op.operands.size() != 2) return;
    const auto constant = ConstantOperand(op, 1);
    if (constant && std::abs(*constant) < kLeastTerm) return;
    const auto first = Use(op, 0), second = Use(op, 1);
    if (!first || !second) return;
    const std::string& type = module_.TypeOf(op.results.at(0));
    const std::string before = module_.text.substr(op.span.begin, first->begin - op.span.begin);
    const size_t name = before.rfind(op.name);
    if (name == std::string::npos) return;
    // Times one: the other term as it is.
    Add("term_dropped", op,
        {{{op.span.begin, op.span.begin},
          fmt::format("%kopt_fault = {}\n", Constant(type, "1.000000e+00"))},
         {{op.span.begin + name, op.span.begin + name + op.name.size()}, "arith.mulf"},
         {*second, "%kopt_fault"}});
  }

  void CountLess(const TtirOp& op) {
    if (op.name != "arith.divf" || has_short_ || !has_single_) return;
    const auto count = ConstantOperand(op, 1);
    if (!count || *count < 2 || *count > kMostCount || *count != std::floor(*count)) return;
    if (auto edits = Swap(op, 1, fmt::format("{:e}", *count - 1)))
      Add("count_less", op, std::move(*edits));
  }

  void Tf32Input(const TtirOp& op) {
    if (op.name != "tt.load" || op.results.size() != 1 || has_short_ || !has_single_) return;
    const std::string& type = module_.TypeOf(op.results[0]);
    if (ElementType(type) != "f32" || !type.starts_with("tensor")) return;
    const std::string& name = module_.values[static_cast<size_t>(op.results[0])].name;
    const std::string integers = WithElementType(type, "i32");
    const std::string text = module_.text.substr(op.span.begin, op.span.end - op.span.begin);
    if (!text.starts_with(name)) return;
    Add("tf32_input", op,
        {{{op.span.begin, op.span.begin + name.size()}, "%kopt_whole"},
         {{op.span.end, op.span.end},
          fmt::format("\n%kopt_bits = tt.bitcast %kopt_whole : {0} -> {1}\n"
                      "%kopt_fault = {2}\n"
                      "%kopt_short = arith.andi %kopt_bits, %kopt_fault : {1}\n"
                      "{3} = tt.bitcast %kopt_short : {1} -> {0}",
                      type, integers, Constant(integers, "-8192"), name)}});
  }

  const TtirModule& module_;
  std::vector<const TtirOp*> ops_;
  std::map<ValueId, const TtirOp*> definitions_;
  std::map<ValueId, const TtirOp*> reduced_;
  std::set<const TtirOp*> store_masks_;
  std::map<std::string, std::vector<Fault>> found_;
  bool has_single_ = false, has_short_ = false;  ///< stores of float32, of shorter floats
};

}  // namespace

std::vector<Fault> PlantFaults(const TtirModule& module) {
  return Planter(module).Plant();
}

}  // namespace kernelopt
