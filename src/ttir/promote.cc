#include "ttir/promote.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "ttir/float_bits.h"
#include "ttir/locations.h"

namespace kernelopt {
namespace {

bool IsPromotable(std::string_view element) {
  return element == "f16" || element == "bf16" || element == "f32" || element == "f64";
}

/// The element of a pointer to floats or of a tensor of such pointers, else "".
std::string FloatPointee(std::string_view type) {
  const std::string pointee = PointeeType(type);
  std::string_view element = ElementType(pointee);
  return IsFloatType(element) ? std::string(element) : "";
}

bool IsFloatValue(std::string_view type) {
  return IsFloatType(ElementType(type)) || ElementType(type) == "tf32";
}

// Operations that mean the same in float64: only the types in their text change.
bool KeepsItsForm(std::string_view name) {
  static const std::set<std::string_view> kOps = {"arith.addf",
                                                  "arith.subf",
                                                  "arith.mulf",
                                                  "arith.divf",
                                                  "arith.remf",
                                                  "arith.negf",
                                                  "arith.maximumf",
                                                  "arith.minimumf",
                                                  "arith.maxnumf",
                                                  "arith.minnumf",
                                                  "arith.cmpf",
                                                  "arith.select",
                                                  "arith.fptosi",
                                                  "arith.fptoui",
                                                  "math.absf",
                                                  "math.ceil",
                                                  "math.cos",
                                                  "math.erf",
                                                  "math.exp",
                                                  "math.exp2",
                                                  "math.floor",
                                                  "math.fma",
                                                  "math.log",
                                                  "math.log2",
                                                  "math.rsqrt",
                                                  "math.sin",
                                                  "math.sqrt",
                                                  "tt.addptr",
                                                  "tt.broadcast",
                                                  "tt.cat",
                                                  "tt.clampf",
                                                  "tt.dot",
                                                  "tt.expand_dims",
                                                  "tt.gather",
                                                  "tt.join",
                                                  "tt.reduce",
                                                  "tt.reduce.return",
                                                  "tt.reshape",
                                                  "tt.return",
                                                  "tt.scan",
                                                  "tt.scan.return",
                                                  "tt.splat",
                                                  "tt.split",
                                                  "tt.store",
                                                  "tt.trans",
                                                  "tt.unsplat",
                                                  "tt.precise_sqrt",
                                                  "tt.precise_divf",
                                                  "scf.for",
                                                  "scf.if",
                                                  "scf.while",
                                                  "scf.yield",
                                                  "scf.condition",
                                                  "cf.br",
                                                  "cf.cond_br",
                                                  "ub.poison",
                                                  "tt.load",
                                                  "tt.atomic_rmw",
                                                  "tt.extern_elementwise"};
  return kOps.contains(name);
}

template <typename T>
bool ReadWhole(std::string_view text, T* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

/// The value of a float literal of `type`, as MLIR prints it.
std::optional<double> LiteralValue(std::string_view text, std::string_view type) {
  const int bits = type == "f64" ? 64 : type == "f32" ? 32 : 16;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 2, end, value, 16);
    if (error != std::errc() || stop != end || (bits < 64 && value >> bits != 0))
      return std::nullopt;
    if (bits == 64) return std::bit_cast<double>(value);
    if (bits == 32) return std::bit_cast<float>(static_cast<uint32_t>(value));
    if (type == "bf16") return std::bit_cast<float>(static_cast<uint32_t>(value << 16));
    const int exponent = static_cast<int>(value >> 10 & 31);
    const double fraction = static_cast<double>(value & 1023);
    double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                       : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    return value >> 15 ? -magnitude : magnitude;
  }
  float single = 0;
  double value = 0;
  if (bits == 32) return ReadWhole(text, &single) ? std::optional<double>(single) : std::nullopt;
  if (!ReadWhole(text, &value)) return std::nullopt;
  if (bits == 64) return value;
  // The decimal names one number of the type: the nearest with its digits.
  const int digits = type == "f16" ? 11 : 8, lowest = type == "f16" ? -24 : -133;
  if (value == 0 || !std::isfinite(value)) return value;
  const int unit = std::max(std::ilogb(value) + 1 - digits, lowest);
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

std::string Literal(double value) {
  return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(value));
}

void ReplaceFirst(std::string* text, std::string_view from, std::string_view to) {
  if (size_t at = text->find(from); at != std::string::npos) text->replace(at, from.size(), to);
}

/// Without what removed operations and locations leave: blanks at the end of a
/// line, and empty lines.
std::string Tidy(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    out += line;
    out += '\n';
  }
  return out;
}

class Promoter {
 public:
  Promoter(const TtirModule& module, const std::set<int>& shared)
      : module_(module), shared_(shared), class_(module.values.size()) {
    std::iota(class_.begin(), class_.end(), 0);
    for (const TtirUse& use : module.uses) uses_[use.span.begin] = use.value;
    for (const TtirValue& value : module.values) names_.insert(value.name);
  }

  Result<Float64Twin> Promote() {
    const TtirFunction* entry = module_.Entry();
    if (entry == nullptr || module_.functions.size() != 1)
      return Fail(ErrorKind::kUsage, "not_promotable",
                  fmt::format("found {} functions where one public function was wanted, so no "
                              "float64 twin can be made",
                              module_.functions.size()));
    KOPT_CHECK_OK(Check(entry->body));
    bits_ = KOPT_TRY(FindFloatBits(module_, *entry, [this](const TtirOp& op, std::string_view why) {
      return Refuse(op, why);
    }));
    JoinPointers(entry->body, {});
    MarkWritten(entry->body);
    Float64Twin twin;
    for (size_t i = 0; i < entry->parameters.size(); ++i) {
      const std::string pointee = FloatPointee(module_.TypeOf(entry->parameters[i]));
      if (!pointee.empty() && shared_.contains(static_cast<int>(i)))
        wide_.insert(Class(entry->parameters[i]));
    }
    for (ValueId id : entry->parameters)
      twin.widened.push_back(!FloatPointee(module_.TypeOf(id)).empty() && IsWide(id));
    const std::string& text = module_.text;
    twin.text = WithoutLocationNames(text.substr(0, entry->span.begin)) + Header(*entry);
    twin.text += "{";
    for (const std::string& line : scalars_) twin.text += "\n    " + line;
    twin.text += KOPT_TRY(Body(entry->body)).substr(1);
    twin.text += WithoutLocationNames(text.substr(entry->span.end));
    twin.text = Tidy(twin.text);
    return twin;
  }

 private:
  std::unexpected<Error> Refuse(const TtirOp& op, std::string_view why) const {
    return Fail(
        ErrorKind::kUsage, "not_promotable",
        fmt::format("{} in line {}{} {}, so no float64 twin can be made", op.name, op.line,
                    op.source_line > 0 ? fmt::format(" (line {} of the kernel)", op.source_line)
                                       : std::string(),
                    why));
  }

  // --- What can be promoted at all.

  /// Every value that the operation touches, its regions' arguments included.
  static std::vector<ValueId> Touched(const TtirOp& op) {
    std::vector<ValueId> all = op.operands;
    all.insert(all.end(), op.results.begin(), op.results.end());
    all.insert(all.end(), op.initial.begin(), op.initial.end());
    for (const TtirRegion& region : op.regions)
      for (const TtirBlock& block : region.blocks)
        all.insert(all.end(), block.arguments.begin(), block.arguments.end());
    for (const TtirOp::Successor& successor : op.successors)
      all.insert(all.end(), successor.arguments.begin(), successor.arguments.end());
    return all;
  }

  bool TouchesFloats(const TtirOp& op) const {
    for (ValueId id : Touched(op)) {
      const std::string& type = module_.TypeOf(id);
      if (IsFloatValue(type) || !FloatPointee(type).empty()) return true;
    }
    return false;
  }

  Status Check(const TtirRegion& region) const {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        KOPT_CHECK_OK(CheckOp(op));
        for (const TtirRegion& inner : op.regions) KOPT_CHECK_OK(Check(inner));
      }
    }
    return {};
  }

  Status CheckOp(const TtirOp& op) const {
    if (op.name == "tt.call") return Refuse(op, "calls a function");
    for (ValueId id : Touched(op)) {
      const std::string& type = module_.TypeOf(id);
      if (type.empty()) return Refuse(op, "has a value whose type is not known");
      const std::string_view element = ElementType(type);
      const std::string pointee = FloatPointee(type);
      if ((IsFloatValue(type) && !IsPromotable(element)) ||
          (!pointee.empty() && !IsPromotable(pointee)))
        return Refuse(op, fmt::format("works on {}", type));
      if (type.starts_with("!tt.tensordesc") || ElementType(type).starts_with("!tt.ptr<tensor<") ||
          ElementType(type).starts_with("!tt.ptr<!"))
        return Refuse(op, fmt::format("works on {}", type));
    }
    if (!TouchesFloats(op)) return {};
    if (op.name == "tt.load" && (op.results.size() != 1 || op.operands.empty() ||
                                 IsPointerType(module_.TypeOf(op.results[0]))))
      return Refuse(op, "loads a pointer");
    if (op.name == "tt.bitcast" && op.operands.size() == 1 && op.results.size() == 1 &&
        !IsPointerType(module_.TypeOf(op.operands[0])) &&
        !IsPointerType(module_.TypeOf(op.results[0])))
      return {};  // FindFloatBits has the last word
    if (op.name == "tt.bitcast" || op.name == "arith.bitcast")
      return Refuse(op, "looks at the bits of a float");
    if (op.name == "arith.constant") {
      if (!ConstantText(op)) return Refuse(op, "is no single number");
      return {};
    }
    if (op.name == "tt.atomic_rmw" && !op.attributes.starts_with("fadd"))
      return Refuse(op, "updates a float by something else than an addition");
    if (op.name == "tt.extern_elementwise" && Float64Function(Symbol(op)).empty())
      return Refuse(op, fmt::format("calls {}, which has no float64 counterpart", Symbol(op)));
    static const std::set<std::string_view> kConversions = {
        "arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.sitofp", "arith.uitofp"};
    if (kConversions.contains(op.name)) {
      if (op.operands.size() == 1 && op.results.size() == 1) return {};
    } else if (KeepsItsForm(op.name)) {
      return {};
    }
    return Refuse(op, "has no known float64 form");
  }

  static std::string Symbol(const TtirOp& op) {
    constexpr std::string_view kKey = "symbol = \"";
    const size_t begin = op.attributes.find(kKey);
    if (begin == std::string::npos) return "";
    const size_t end = op.attributes.find('"', begin + kKey.size());
    return op.attributes.substr(begin + kKey.size(), end - begin - kKey.size());
  }

  /// The constant's literal in float64, in dense<> where it was.
  std::optional<std::string> ConstantText(const TtirOp& op) const {
    if (op.results.size() != 1) return std::nullopt;
    std::string_view text = op.attributes;
    const bool dense = text.starts_with("dense<") && text.ends_with('>');
    if (dense) text = text.substr(6, text.size() - 7);
    const auto value = LiteralValue(text, ElementType(module_.TypeOf(op.results[0])));
    if (!value) return std::nullopt;
    return dense ? "dense<" + Literal(*value) + ">" : Literal(*value);
  }

  // --- Which pointers lead to float64. Values that one operation touches are one
  // class: more is joined than must be, which is never wrong, since whoever runs
  // the twin is told every parameter that changed.

  ValueId Class(ValueId id) {
    while (class_[id] != id) id = class_[id] = class_[class_[id]];
    return id;
  }

  bool IsWide(ValueId id) { return wide_.contains(Class(id)); }

  void JoinPointers(const TtirRegion& region, std::vector<ValueId> outer) {
    std::map<std::string, const TtirBlock*> blocks;
    for (const TtirBlock& block : region.blocks) blocks[block.label] = &block;
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        std::vector<ValueId> all = Touched(op);
        for (const TtirOp::Successor& successor : op.successors) {
          if (auto target = blocks.find(successor.label); target != blocks.end())
            all.insert(all.end(), target->second->arguments.begin(),
                       target->second->arguments.end());
        }
        std::erase_if(all, [&](ValueId id) { return FloatPointee(module_.TypeOf(id)).empty(); });
        // A region's last operation gives its operands to the operation around it.
        const bool last = op.name == "scf.yield" || op.name == "scf.condition";
        if (last && !outer.empty() && !all.empty()) all.push_back(outer[0]);
        for (ValueId id : all) class_[Class(id)] = Class(all[0]);
        for (const TtirRegion& inner : op.regions) JoinPointers(inner, all);
      }
    }
  }

  void MarkWritten(const TtirRegion& region) {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        for (const TtirRegion& inner : op.regions) MarkWritten(inner);
        if ((op.name == "tt.store" || op.name.starts_with("tt.atomic")) && !op.operands.empty())
          wide_.insert(Class(op.operands[0]));
      }
    }
  }

  /// Which types change beside those of floats.
  struct Change {
    bool pointers = false;  ///< to floats
    bool integers = false;  ///< outside of attributes
  };

  Change ChangeOf(const std::vector<ValueId>& values) {
    Change change;
    for (ValueId id : values) {
      if (!FloatPointee(module_.TypeOf(id)).empty()) change.pointers = IsWide(id);
      change.integers = change.integers || bits_.contains(id);
    }
    return change;
  }

  // --- Writing.

  /// "%x" -> "%narrow_x": a name that nothing has.
  std::string Fresh(std::string_view prefix, std::string_view name) {
    std::string fresh = fmt::format("%{}_{}", prefix, name.substr(1));
    while (!names_.insert(fresh).second) fresh += '_';
    return fresh;
  }

  std::string NameOf(ValueId id) const {
    for (auto it = alias_.find(id); it != alias_.end(); it = alias_.find(id)) id = it->second;
    return module_.values[static_cast<size_t>(id)].name;
  }

  std::string WideType(ValueId id) const { return WithElementType(module_.TypeOf(id), "f64"); }

  /// The text in [begin, end) with float types as f64, others by `change`, and
  /// operands by their new names.
  std::string Rewrite(size_t begin, size_t end, Change change) const {
    std::string out;
    const std::string& text = module_.text;
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
    };
    std::string_view before;  // the word before this one
    int braces = 0;
    for (size_t i = begin; i < end;) {
      const char c = text[i];
      size_t next = i + 1;
      if (c == '"') {
        while (next < end && text[next] != '"') next += text[next] == '\\' ? 2 : 1;
        next = std::min(next + 1, end);
        out.append(text, i, next - i);
      } else if (c == '%' || c == '^' || c == '@' || c == '#') {
        while (next < end && (is_word(text[next]) || text[next] == '-' || text[next] == '#'))
          ++next;
        const auto use = uses_.find(i);
        out += use != uses_.end() && alias_.contains(use->second) ? NameOf(use->second)
                                                                  : text.substr(i, next - i);
      } else if (is_word(c)) {
        while (next < end && is_word(text[next])) ++next;
        std::string_view word = std::string_view(text).substr(i, next - i);
        const std::string_view element = word.substr(ShapeLength(word));
        const bool pointee = before == "tt.ptr" && text[i - 1] == '<';
        if (IsPromotable(element) && (!pointee || change.pointers)) {
          out += word.substr(0, word.size() - element.size());
          out += "f64";
        } else if (change.integers && braces == 0 && (element == "i32" || element == "i16")) {
          out += word.substr(0, word.size() - element.size());
          out += "i64";
        } else {
          out += word;
        }
        before = word;
      } else {
        braces += c == '{' ? 1 : c == '}' ? -1 : 0;
        out += c;
      }
      i = next;
    }
    return out;
  }

  /// Length of "16x64x" in front of an element type.
  static size_t ShapeLength(std::string_view word) {
    size_t length = 0;
    while (true) {
      size_t i = length;
      while (i < word.size() && std::isdigit(static_cast<unsigned char>(word[i]))) ++i;
      if (i == length || i >= word.size() || word[i] != 'x') return length;
      length = i + 1;
    }
  }

  /// "tt.func ... " up to the body. Float scalars get other names, and a line
  /// each that widens them.
  std::string Header(const TtirFunction& entry) {
    const std::string& text = module_.text;
    std::string out;
    size_t from = entry.span.begin;
    for (size_t i = 0; i < entry.parameters.size(); ++i) {
      const ValueId id = entry.parameters[i];
      const std::string& name = module_.values[static_cast<size_t>(id)].name;
      const std::string& type = module_.TypeOf(id);
      const size_t at = text.find(name + ":", from);
      const size_t type_at = text.find(type, at);
      out.append(text, from, at - from);
      from = type_at + type.size();
      if (IsFloatValue(type) && type != "f64") {
        const std::string narrow = Fresh("narrow", name);
        out += narrow + ": " + type;
        scalars_.push_back(fmt::format("{} = arith.extf {} : {} to f64", name, narrow, type));
      } else {
        out += name + ": " + Rewrite(type_at, from, {.pointers = IsWide(id), .integers = false});
      }
    }
    return out.append(text, from, entry.body.span.begin - from);
  }

  Result<std::string> Body(const TtirRegion& region) {
    std::string out = "{";
    size_t from = region.span.begin + 1;
    for (const TtirBlock& block : region.blocks) {
      // The block's label comes before its first operation.
      const Change change = ChangeOf(block.arguments);
      for (const TtirOp& op : block.ops) {
        out += Rewrite(from, op.span.begin, change);
        out += KOPT_TRY(Op(op));
        from = op.span.end;
      }
    }
    return out + Rewrite(from, region.span.end, {});
  }

  /// The operation with its types as they are now.
  Result<std::string> Plain(const TtirOp& op) {
    const Change change = ChangeOf(Touched(op));
    std::string out;
    size_t from = op.span.begin;
    for (const TtirRegion& region : op.regions) {
      out += Rewrite(from, region.span.begin, change);
      out += KOPT_TRY(Body(region));
      from = region.span.end;
    }
    return out + Rewrite(from, op.span.end, change);
  }

  Result<std::string> Op(const TtirOp& op) {
    if (!TouchesFloats(op)) return Plain(op);
    if (op.name == "arith.extf" || op.name == "arith.truncf" || op.name == "tt.fp_to_fp") {
      alias_[op.results[0]] = op.operands[0];
      return "";
    }
    if (op.name == "arith.constant")
      return fmt::format("{} = arith.constant {} : {}", NameOf(op.results[0]), *ConstantText(op),
                         WideType(op.results[0]));
    if (op.name == "arith.sitofp" || op.name == "arith.uitofp") return FromInteger(op);
    if (op.name == "tt.load") return Load(op);
    std::string out = KOPT_TRY(Plain(op));
    if (op.name == "tt.precise_sqrt") ReplaceFirst(&out, op.name, "math.sqrt");
    if (op.name == "tt.precise_divf") ReplaceFirst(&out, op.name, "arith.divf");
    if (op.name == "tt.extern_elementwise")
      ReplaceFirst(&out, '"' + Symbol(op) + '"',
                   fmt::format("\"{}\"", Float64Function(Symbol(op))));
    if (op.name == "tt.dot") {
      constexpr std::string_view kPrecision = "inputPrecision = ";
      if (size_t at = out.find(kPrecision); at != std::string::npos) {
        size_t end = at += kPrecision.size();
        while (end < out.size() && std::isalnum(static_cast<unsigned char>(out[end]))) ++end;
        out.replace(at, end - at, "ieee");
      }
    }
    return out;
  }

  std::string FromInteger(const TtirOp& op) {
    const ValueId result = op.results[0];
    const std::string& type = module_.TypeOf(result);
    const std::string name = NameOf(result);
    const std::string& integer = module_.TypeOf(op.operands[0]);
    if (ElementType(type) == "f64")
      return fmt::format("{} = {} {} : {} to {}", name, op.name, NameOf(op.operands[0]), integer,
                         type);
    const std::string narrow = Fresh("narrow", name);
    return fmt::format("{} = {} {} : {} to {}\n    {} = arith.extf {} : {} to {}", narrow, op.name,
                       NameOf(op.operands[0]), integer, type, name, narrow, type, WideType(result));
  }

  /// A load in the storage's type, then widened. Where the mask is false the
  /// float64 value given for it is taken, which the storage's type might not hold.
  Result<std::string> Load(const TtirOp& op) {
    const std::string pointee = FloatPointee(module_.TypeOf(op.operands[0]));
    if (pointee.empty() || pointee == "f64" || IsWide(op.operands[0])) return Plain(op);
    const ValueId result = op.results[0];
    const std::string& type = module_.TypeOf(result);
    const std::string name = NameOf(result), narrow = Fresh("narrow", name);
    std::string out = fmt::format("{} = tt.load {}", narrow, NameOf(op.operands[0]));
    if (op.operands.size() > 1) out += ", " + NameOf(op.operands[1]);
    out += " : " + module_.TypeOf(op.operands[0]);
    const bool masked = op.operands.size() > 2;
    const std::string wide = masked ? Fresh("wide", name) : name;
    out += fmt::format("\n    {} = arith.extf {} : {} to {}", wide, narrow, type, WideType(result));
    if (!masked) return out;
    const std::string& mask = module_.TypeOf(op.operands[1]);
    return out + fmt::format("\n    {} = arith.select {}, {}, {} : {}{}", name,
                             NameOf(op.operands[1]), wide, NameOf(op.operands[2]),
                             mask == "i1" ? std::string() : mask + ", ", WideType(result));
  }

  const TtirModule& module_;
  const std::set<int>& shared_;
  std::map<size_t, ValueId> uses_;
  std::set<std::string> names_;
  std::vector<ValueId> class_;  // union-find
  std::set<ValueId> wide_;      // classes
  std::set<ValueId> bits_;      // integers that hold a float's bits
  std::map<ValueId, ValueId> alias_;
  std::vector<std::string> scalars_;
};

}  // namespace

Result<Float64Twin> PromoteToFloat64(const TtirModule& module, const std::set<int>& shared) {
  return Promoter(module, shared).Promote();
}

}  // namespace kernelopt
