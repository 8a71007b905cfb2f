#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "device/element_code.h"
#include "shadow/compiler.h"
#include "shadow/math_functions.h"
#include "ttir/expressions.h"

namespace kernelopt {
namespace {

using Op = ShadowOp;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == ',' || text.front() == '\n'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == ',' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

/// Operations that do the same on every lane and need nothing but their operands.
const std::unordered_map<std::string_view, Op>& SimpleOps() {
  static const std::unordered_map<std::string_view, Op> ops = {
      {"arith.addi", Op::kAdd},
      {"arith.subi", Op::kSub},
      {"arith.muli", Op::kMul},
      {"arith.divsi", Op::kDivS},
      {"arith.divui", Op::kDivU},
      {"arith.remsi", Op::kRemS},
      {"arith.remui", Op::kRemU},
      {"arith.andi", Op::kAnd},
      {"arith.ori", Op::kOr},
      {"arith.xori", Op::kXor},
      {"arith.shli", Op::kShl},
      {"arith.shrsi", Op::kShrS},
      {"arith.shrui", Op::kShrU},
      {"arith.minsi", Op::kMinS},
      {"arith.maxsi", Op::kMaxS},
      {"arith.minui", Op::kMinU},
      {"arith.maxui", Op::kMaxU},
      {"tt.mulhiui", Op::kMulHighU},
      {"math.absi", Op::kAbs},
      {"arith.addf", Op::kAddF},
      {"arith.subf", Op::kSubF},
      {"arith.mulf", Op::kMulF},
      {"arith.divf", Op::kDivF},
      {"tt.precise_divf", Op::kDivF},
      {"arith.remf", Op::kRemF},
      {"arith.maximumf", Op::kMaximumF},
      {"arith.minimumf", Op::kMinimumF},
      {"arith.maxnumf", Op::kMaxNumF},
      {"arith.minnumf", Op::kMinNumF},
      {"arith.negf", Op::kNegF},
      {"math.absf", Op::kAbsF},
      {"math.sqrt", Op::kSqrtF},
      {"tt.precise_sqrt", Op::kSqrtF},
      {"math.rsqrt", Op::kRsqrtF},
      {"math.floor", Op::kFloorF},
      {"math.ceil", Op::kCeilF},
      {"math.roundeven", Op::kRoundEvenF},
      {"math.trunc", Op::kTruncF},
      {"math.copysign", Op::kCopySign},
      {"math.fma", Op::kFma},
      {"arith.select", Op::kSelect},
      {"arith.extsi", Op::kExtendS},
      {"arith.index_cast", Op::kExtendS},
      {"arith.extui", Op::kExtendU},
      {"arith.trunci", Op::kTruncateI},
      {"arith.extf", Op::kConvertF},
      {"arith.truncf", Op::kConvertF},
      {"tt.fp_to_fp", Op::kConvertF},
      {"arith.sitofp", Op::kSignedToF},
      {"arith.uitofp", Op::kUnsignedToF},
      {"arith.fptosi", Op::kFToSigned},
      {"arith.fptoui", Op::kFToUnsigned},
      {"arith.bitcast", Op::kBitcast},
      {"math.isnan", Op::kIsNan},
      {"math.isinf", Op::kIsInf},
      {"math.isfinite", Op::kIsFinite},
  };
  return ops;
}

/// The library's functions that are operations.
const std::unordered_map<std::string_view, Op>& LibraryOps() {
  static const std::unordered_map<std::string_view, Op> ops = {
      {"fabs", Op::kAbsF},
      {"abs", Op::kAbs},
      {"llabs", Op::kAbs},
      {"sqrt", Op::kSqrtF},
      {"fsqrt_rn", Op::kSqrtF},
      {"dsqrt_rn", Op::kSqrtF},
      {"sqrt_rn", Op::kSqrtF},
      {"rsqrt", Op::kRsqrtF},
      {"floor", Op::kFloorF},
      {"ceil", Op::kCeilF},
      {"rint", Op::kRoundEvenF},
      {"nearbyint", Op::kRoundEvenF},
      {"trunc", Op::kTruncF},
      {"copysign", Op::kCopySign},
      {"fma", Op::kFma},
      {"fma_rn", Op::kFma},
      {"fmaf_rn", Op::kFma},
      {"fmax", Op::kMaxNumF},
      {"fmin", Op::kMinNumF},
      {"fmod", Op::kRemF},
      {"fdiv_rn", Op::kDivF},
      {"ddiv_rn", Op::kDivF},
      {"div_rn", Op::kDivF},
      {"fadd_rn", Op::kAddF},
      {"dadd_rn", Op::kAddF},
      {"fmul_rn", Op::kMulF},
      {"dmul_rn", Op::kMulF},
      {"fsub_rn", Op::kSubF},
      {"isnan", Op::kIsNan},
      {"isinf", Op::kIsInf},
      {"isfinite", Op::kIsFinite},
      {"finite", Op::kIsFinite},
      {"signbit", Op::kSignBit},
      {"llrint", Op::kRoundToLong},
      {"lrint", Op::kRoundToLong},
      {"umulhi", Op::kMulHighU},
      {"mulhi", Op::kMulHighS},
      {"float_as_int", Op::kBitcast},
      {"int_as_float", Op::kBitcast},
      {"double_as_longlong", Op::kBitcast},
      {"longlong_as_double", Op::kBitcast},
      {"min", Op::kMinS},
      {"max", Op::kMaxS},
  };
  return ops;
}

ShadowPredicate Predicate(std::string_view word, bool floats) {
  using P = ShadowPredicate;
  static const std::unordered_map<std::string_view, P> integers = {
      {"eq", P::kEq},   {"ne", P::kNe},   {"slt", P::kSlt}, {"sle", P::kSle}, {"sgt", P::kSgt},
      {"sge", P::kSge}, {"ult", P::kUlt}, {"ule", P::kUle}, {"ugt", P::kUgt}, {"uge", P::kUge}};
  static const std::unordered_map<std::string_view, P> of_floats = {
      {"oeq", P::kOeq},  {"ogt", P::kOgt},  {"oge", P::kOge},  {"olt", P::kOlt},
      {"ole", P::kOle},  {"one", P::kOne},  {"ord", P::kOrd},  {"ueq", P::kUeq},
      {"ugt", P::kUfGt}, {"uge", P::kUfGe}, {"ult", P::kUfLt}, {"ule", P::kUfLe},
      {"une", P::kUne},  {"uno", P::kUno},  {"true", P::kTrue}};
  const auto& table = floats ? of_floats : integers;
  const auto it = table.find(word);
  return it == table.end() ? P::kFalse : it->second;
}

std::optional<double> FloatLiteral(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::nullopt;
  return value;
}

int DTypeOf(ShadowKind kind) {
  return kind == ShadowKind::kF16    ? KOPT_F16
         : kind == ShadowKind::kBF16 ? KOPT_BF16
         : kind == ShadowKind::kF32  ? KOPT_F32
                                     : KOPT_F64;
}

}  // namespace

std::optional<ShadowKind> KindOf(std::string_view type) {
  static const std::unordered_map<std::string_view, ShadowKind> kinds = {
      {"i1", ShadowKind::kI1},   {"i8", ShadowKind::kI8},     {"i16", ShadowKind::kI16},
      {"i32", ShadowKind::kI32}, {"i64", ShadowKind::kI64},   {"index", ShadowKind::kI64},
      {"f16", ShadowKind::kF16}, {"bf16", ShadowKind::kBF16}, {"f32", ShadowKind::kF32},
      {"f64", ShadowKind::kF64}};
  if (type.starts_with("!tt.ptr<")) return ShadowKind::kPointer;
  const auto it = kinds.find(type);
  if (it == kinds.end()) return std::nullopt;
  return it->second;
}

std::optional<uint64_t> SlotBits(std::string_view text, ShadowKind kind) {
  text = Trim(text);
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  if (kind == ShadowKind::kPointer) return std::nullopt;
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (!IsFloat(kind)) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + (is_hex ? 2 : 0),
                                              text.data() + text.size(), value, is_hex ? 16 : 10);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return kind == ShadowKind::kI1 ? static_cast<uint64_t>(value & 1)
                                   : static_cast<uint64_t>(value);
  }
  double value = 0;
  if (is_hex) {
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (kind == ShadowKind::kF64) return bits;
    if (kind == ShadowKind::kF32) return bits & 0xFFFFFFFF;
    value = KoptDecode(bits & 0xFFFF, DTypeOf(kind));
  } else {
    const auto read = FloatLiteral(text);
    if (!read) return std::nullopt;
    value = *read;
    if (kind == ShadowKind::kF64) return std::bit_cast<uint64_t>(value);
    // The nearest number of its type; f32 from the text, since a double between two
    // would round twice.
    if (kind == ShadowKind::kF32) {
      float single = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), single);
      if (error == std::errc()) return std::bit_cast<uint32_t>(single);
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    }
    value = KoptDecode(KoptEncode(value, DTypeOf(kind)), DTypeOf(kind));
  }
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

std::optional<int64_t> IntegerAfter(std::string_view attributes, std::string_view key) {
  const size_t at = attributes.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = attributes.substr(at + key.size());
  while (rest.starts_with(' ') || rest.starts_with('=')) rest.remove_prefix(1);
  int64_t value = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec != std::errc())
    return std::nullopt;
  return value;
}

Status ShadowCompiler::Constant(const TtirOp& op) {
  ShadowSlot slot = KOPT_TRY(Shape(op, op.results[0]));
  std::string_view text = Trim(op.attributes);
  if (text.starts_with("dense<") && text.ends_with('>')) text = text.substr(6, text.size() - 7);
  const ShadowKind kind = slot.kind;
  if (text.starts_with('[')) {
    ShadowProgram::Table table;
    slot.uniform = slot.lanes == 1;
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t begin = rest.find_first_not_of("[], \n");
      if (begin == std::string_view::npos) break;
      const size_t end = std::min(rest.find_first_of("[], \n", begin), rest.size());
      const auto bits = SlotBits(rest.substr(begin, end - begin), kind);
      if (!bits) return Refuse(op, fmt::format("has the value '{}'", op.attributes));
      table.bits.push_back(*bits);
      rest.remove_prefix(end);
    }
    if (static_cast<int64_t>(table.bits.size()) != slot.lanes)
      return Refuse(op, fmt::format("has {} values", table.bits.size()));
    table.slot = NewSlot(std::move(slot), true);
    Define(op.results[0], table.slot, true);
    program_.tables.push_back(std::move(table));
    return {};
  }
  const auto bits = SlotBits(text, kind);
  if (!bits) return Refuse(op, fmt::format("has the value '{}'", op.attributes));
  slot.uniform = true;
  const int made = NewSlot(std::move(slot), true);
  Define(op.results[0], made, true);
  program_.constants.push_back({made, *bits});
  return {};
}

/// The same lanes under another shape.
Status ShadowCompiler::View(const TtirOp& op) {
  const int from = SlotOf(op.operands[0]);
  ShadowSlot slot = KOPT_TRY(Shape(op, op.results[0]));
  if (region_lanes_ > 0 && !At(from).uniform) slot.lanes = region_lanes_;
  slot.uniform = At(from).uniform;
  slot.kind = slot.kind == ShadowKind::kPointer || At(from).kind == ShadowKind::kPointer
                  ? slot.kind
                  : At(from).kind;
  Define(op.results[0], NewView(from, std::move(slot)), IsInvariant(op.operands[0]));
  return {};
}

Status ShadowCompiler::Elementwise(const TtirOp& op, ShadowOp what, int variant) {
  if (op.results.size() != 1 || op.operands.empty() || op.operands.size() > 3)
    return Refuse(op, "has an unknown form");
  const bool invariant = AllInvariant(op.operands) && hoisted_bytes_ < kHoistedBytes;
  const int out = KOPT_TRY(ResultSlot(op, AllUniform(op.operands), invariant));
  if (invariant) hoisted_bytes_ += At(out).stored() * SlotBytes(At(out).kind);
  ShadowInstruction& made = Emit(op, what, invariant);
  made.out = out;
  made.out_kind = At(out).kind;
  made.a = SlotOf(op.operands[0]);
  if (op.operands.size() > 1) made.b = SlotOf(op.operands[1]);
  if (op.operands.size() > 2) made.c = SlotOf(op.operands[2]);
  made.kind = what == Op::kSelect ? made.out_kind : At(made.a).kind;
  made.variant = static_cast<uint8_t>(variant);
  made.lanes = region_lanes_ > 0 && !At(out).uniform ? -1 : At(out).stored();
  return {};
}

Status ShadowCompiler::Contracted(const TtirOp& op, bool* done) {
  const auto it = fused_.find(&op);
  if (it == fused_.end()) return {};
  *done = true;
  const TtirOp& product = *it->second;
  const bool first = op.operands[0] == product.results[0];
  TtirOp fused = op;
  fused.operands = {product.operands[0], product.operands[1], op.operands[first ? 1 : 0]};
  // Bits: the product is negated, the third is negated.
  const int variant = op.name == "arith.addf" ? 0 : first ? 2 : 1;
  return Elementwise(fused, Op::kFma, variant);
}

Status ShadowCompiler::Compare(const TtirOp& op) {
  const bool floats = op.name == "arith.cmpf";
  std::string_view word = Trim(op.attributes);
  word = word.substr(0, word.find_first_of(", "));
  const ShadowPredicate predicate = Predicate(word, floats);
  if (predicate == ShadowPredicate::kFalse) return Refuse(op, fmt::format("compares '{}'", word));
  return Elementwise(op, floats ? Op::kCompareF : Op::kCompareI, static_cast<int>(predicate));
}

Status ShadowCompiler::Library(const TtirOp& op) {
  std::string name;
  if (op.name == "tt.extern_elementwise") {
    constexpr std::string_view kKey = "symbol = \"__nv_";
    const size_t begin = op.attributes.find(kKey);
    if (begin == std::string::npos) return Refuse(op, "calls a function that is not known");
    name = op.attributes.substr(begin + kKey.size());
    name = name.substr(0, name.find('"'));
    if (name.starts_with("fast_")) name = name.substr(5);
  } else {
    name = op.name.substr(5);  // math.
  }
  std::vector<std::string> names = {name};
  if (name.ends_with('f') || name.ends_with('d')) names.push_back(name.substr(0, name.size() - 1));
  for (const std::string& each : names) {
    if (auto it = LibraryOps().find(each); it != LibraryOps().end())
      return Elementwise(op, it->second);
    ++program_.unspecified;
    if (int f = FindMathFunction(each); f >= 0 && op.operands.size() == 1)
      return Elementwise(op, Op::kMath, f);
    if (int f = FindMathFunction2(each); f >= 0 && op.operands.size() == 2)
      return Elementwise(op, Op::kMath2, f);
    --program_.unspecified;
  }
  return Refuse(op, fmt::format("calls '{}', which is not evaluated", name));
}

Status ShadowCompiler::Simple(const TtirOp& op) {
  const Op what = SimpleOps().at(op.name);
  if (what == Op::kConvertF && op.attributes.find("rtz") != std::string::npos)
    return Refuse(op, "rounds toward zero");
  if (op.name == "arith.divf") ++program_.unspecified;
  return Elementwise(op, what);
}

Status ShadowCompiler::Operation(const TtirOp& op) {
  if (absorbed_.contains(&op)) return {};
  const std::string_view name = op.name;
  if (region_lanes_ > 0 && !op.regions.empty()) return Refuse(op, "stands in a reduction");
  if (name == "scf.for") return For(op);
  if (name == "scf.while") return While(op);
  if (name == "scf.if") return If(op);
  if (name == "scf.yield" || name == "scf.condition" || name.ends_with(".return")) {
    if (name == "tt.return") Emit(op, Op::kReturn);
    return {};
  }
  if (name == "llvm.intr.assume" || name == "tt.print") return {};
  if (name == "arith.constant" && op.results.size() == 1) return Constant(op);
  if (name == "tt.reduce" || name == "tt.scan") return Reduction(op);
  if (name == "tt.dot") return Dot(op);
  bool done = false;
  KOPT_CHECK_OK(Contracted(op, &done));
  if (!done) KOPT_CHECK_OK(Shaped(op, &done));
  if (!done) KOPT_CHECK_OK(Memory(op, &done));
  if (done) return {};
  if (name == "arith.cmpi" || name == "arith.cmpf") return Compare(op);
  if (name == "tt.clampf")
    return Elementwise(op, op.attributes.find("propagateNan = all") != std::string::npos
                               ? Op::kClampFNan
                               : Op::kClampF);
  if (SimpleOps().contains(name)) return Simple(op);
  if (name == "tt.extern_elementwise" || name.starts_with("math.")) return Library(op);
  return Refuse(op, "is not evaluated");
}

}  // namespace kernelopt
