// Shapes, memory, programs, branches, reductions.
#include <fmt/format.h>

#include <algorithm>

#include "shadow/compiler.h"
#include "ttir/expressions.h"

namespace kernelopt {
namespace {

using Op = ShadowOp;

std::vector<int> Numbers(std::string_view text) {
  std::vector<int> numbers;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    int value = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && value < 100000; ++i)
      value = value * 10 + (text[i] - '0');
    numbers.push_back(value);
  }
  return numbers;
}

int Axis(std::string_view attributes) {
  const size_t letter = attributes.find_first_of("xyz");
  return letter == std::string_view::npos ? 0 : attributes[letter] - 'x';
}

}  // namespace

Status ShadowCompiler::Shaped(const TtirOp& op, bool* known) {
  const std::string_view name = op.name;
  static const std::set<std::string_view> kViews = {
      "tt.splat",      "tt.expand_dims", "tt.reshape",        "tt.unsplat",
      "tt.ptr_to_int", "tt.int_to_ptr",  "arith.index_castui"};
  static const std::set<std::string_view> kShaped = {"tt.broadcast", "tt.trans", "tt.make_range",
                                                     "tt.join",      "tt.split", "tt.gather",
                                                     "tt.bitcast",   "tt.cat",   "ub.poison"};
  *known = kViews.contains(name) || kShaped.contains(name);
  if (!*known) return {};
  if (name == "ub.poison") {
    TtirOp zero = op;
    zero.attributes = "0";
    return Constant(zero);
  }
  if (name == "tt.make_range") {
    const auto start = IntegerAfter(op.attributes, "start");
    if (!start) return Refuse(op, "has no start");
    const int out = KOPT_TRY(ResultSlot(op, false, true));
    ShadowInstruction& made = Emit(op, Op::kMakeRange, true);
    made.out = out;
    made.extra = static_cast<int>(*start);
    made.lanes = At(out).stored();
    return {};
  }
  if (op.operands.empty()) return Refuse(op, "has no operand");
  const int from = SlotOf(op.operands[0]);
  if (kViews.contains(name)) return View(op);
  if (name == "tt.bitcast") {
    const auto kind = KindOf(ElementType(module_.TypeOf(op.results[0])));
    if (At(from).kind == ShadowKind::kPointer || (kind && *kind == At(from).kind)) return View(op);
    return Elementwise(op, Op::kBitcast);
  }
  if ((name == "tt.broadcast" || name == "tt.trans") && At(from).uniform) return View(op);
  if (name == "tt.cat" || name == "tt.gather" || name == "tt.join") {
    if (op.operands.size() != 2) return Refuse(op, "has an unknown form");
  }
  const bool invariant = AllInvariant(op.operands) && hoisted_bytes_ < kHoistedBytes;
  std::vector<int> list;
  int a = from, b = -1;
  if (name != "tt.broadcast") a = Full(op, a);  // no-op but for a uniform operand
  if (op.operands.size() == 2) b = Full(op, SlotOf(op.operands[1]));
  if (name == "tt.trans") {
    const size_t at = op.attributes.find("array<i32:");
    if (at == std::string::npos) return Refuse(op, "has no order");
    list = Numbers(std::string_view(op.attributes).substr(at + 10));
    list.resize(At(from).shape.size(), 0);
  }
  if (name == "tt.gather") {
    const auto axis = IntegerAfter(op.attributes, "axis");
    if (!axis) return Refuse(op, "has no axis");
    list = {static_cast<int>(*axis)};
  }
  const Op what = name == "tt.broadcast" ? Op::kBroadcast
                  : name == "tt.trans"   ? Op::kTranspose
                  : name == "tt.join"    ? Op::kJoin
                  : name == "tt.split"   ? Op::kSplit
                  : name == "tt.cat"     ? Op::kConcatenate
                                         : Op::kGather;
  // Operands that were made full are not invariant.
  const bool hoist = invariant && a == from && (b < 0 || b == SlotOf(op.operands[1]));
  for (size_t r = 0; r < op.results.size(); ++r) {
    ShadowSlot slot;
    if (name == "tt.split") {  // the text gives one type for both
      slot = At(a);
      if (slot.shape.empty() || slot.shape.back() != 2) return Refuse(op, "has an unknown form");
      slot.shape.pop_back();
      slot.lanes /= 2;
      slot.uniform = slot.lanes == 1;
    } else {
      slot = KOPT_TRY(Shape(op, op.results[r]));
    }
    const int out = NewSlot(std::move(slot), hoist);
    if (hoist) hoisted_bytes_ += At(out).stored() * SlotBytes(At(out).kind);
    Define(op.results[r], out, hoist);
    ShadowInstruction& made = Emit(op, what, hoist);
    made.out = out;
    made.a = a;
    made.b = b;
    made.kind = made.out_kind = At(out).kind;
    made.variant = static_cast<uint8_t>(r);
    made.lanes = At(out).stored();
    if (!list.empty()) {
      made.extra = static_cast<int>(program_.lists.size());
      program_.lists.push_back(list);
    }
  }
  return {};
}

Status ShadowCompiler::Memory(const TtirOp& op, bool* known) {
  const std::string_view name = op.name;
  *known = true;
  if (name == "tt.get_program_id" || name == "tt.get_num_programs") {
    const bool id = name == "tt.get_program_id";
    const int out = KOPT_TRY(ResultSlot(op, true, false));
    ShadowInstruction& made = Emit(op, id ? Op::kProgramId : Op::kNumPrograms);
    made.out = out;
    made.variant = static_cast<uint8_t>(Axis(op.attributes));
    made.lanes = 1;
    return {};
  }
  if (name == "gpu.barrier" || name == "ttg.barrier" || name == "tt.debug_barrier") {
    Emit(op, Op::kBarrier);
    return {};
  }
  if (name == "tt.assert") {
    ShadowInstruction& made = Emit(op, Op::kAssert);
    made.a = SlotOf(op.operands.at(0));
    made.extra = static_cast<int>(program_.texts.size());
    program_.texts.push_back(op.attributes);
    return {};
  }
  if (name == "tt.addptr") {
    if (op.operands.size() != 2) return Refuse(op, "has an unknown form");
    const auto pointee = KindOf(ElementType(PointeeType(module_.TypeOf(op.results[0]))));
    if (!pointee) return Refuse(op, "leads to what is not evaluated");
    KOPT_CHECK_OK(Elementwise(op, Op::kAddPointer));
    Ops& where = IsInvariant(op.results[0]) ? program_.prologue : *code_;
    where.back().extra = MemoryBytes(*pointee);
    where.back().kind = At(where.back().b).kind;
    return {};
  }
  if (name == "cf.br" || name == "cf.cond_br") {
    const auto jump = [&](const TtirOp::Successor& to) {
      if (auto it = blocks_.find(to.label);
          it != blocks_.end() && it->second->arguments.size() == to.arguments.size())
        MoveAll(op, Slots(it->second->arguments), Slots(to.arguments));
      jumps_.push_back({static_cast<int>(code_->size()), to.label});
      Emit(op, Op::kJump);
    };
    if (op.successors.empty()) return Refuse(op, "has an unknown form");
    int unless = -1;
    if (name == "cf.cond_br") {
      if (op.successors.size() != 2 || op.operands.empty())
        return Refuse(op, "has an unknown form");
      unless = static_cast<int>(code_->size());
      Emit(op, Op::kJumpUnless).a = SlotOf(op.operands[0]);
    }
    jump(op.successors[0]);
    if (unless >= 0) {
      (*code_)[static_cast<size_t>(unless)].target = static_cast<int>(code_->size());
      jump(op.successors[1]);
    }
    return {};
  }
  const bool load = name == "tt.load", store = name == "tt.store";
  const bool rmw = name == "tt.atomic_rmw", cas = name == "tt.atomic_cas";
  *known = load || store || rmw || cas;
  if (!*known) return {};

  const size_t least = load ? 1 : cas ? 3 : 2;
  if (op.operands.size() < least || op.operands.size() > 3 ||
      op.results.size() != (store ? 0u : 1u))
    return Refuse(op, "has an unknown form");
  ShadowAccess access;
  const std::string pointee = PointeeType(module_.TypeOf(op.operands[0]));
  const auto kind = KindOf(ElementType(pointee));
  if (!kind || *kind == ShadowKind::kPointer || pointee.empty())
    return Refuse(op, fmt::format("leads to '{}'", pointee));
  access.pointee = *kind;
  const std::vector<int> slots = Slots(op.operands);
  access.pointer = slots[0];
  if (load) {
    if (slots.size() > 1) access.mask = slots[1];
    if (slots.size() > 2) access.other = slots[2];
    access.is_volatile = op.attributes.find("isVolatile = true") != std::string::npos;
    program_.may_wait = program_.may_wait || access.is_volatile;
  } else if (cas) {
    access.compare = slots[1];
    access.value = slots[2];
  } else {
    access.value = slots[1];
    if (slots.size() > 2) access.mask = slots[2];
  }
  if (rmw || cas) {
    program_.may_wait = program_.has_atomics = true;
    const std::string_view text = op.attributes;
    access.atomic = cas ? "cas" : std::string(text.substr(0, text.find(',')));
    static const std::set<std::string> kAtomics = {"add", "fadd", "max", "umax", "min", "umin",
                                                   "and", "or",   "xor", "exch", "cas"};
    if (!kAtomics.contains(access.atomic))
      return Refuse(op, fmt::format("has the operation '{}'", access.atomic));
  }
  bool uniform = true;
  for (int slot : slots) uniform = uniform && At(slot).uniform;
  int64_t lanes = 1;
  if (!uniform)
    for (int slot : slots) lanes = std::max(lanes, At(slot).lanes);
  if (!store) access.result = KOPT_TRY(ResultSlot(op, uniform, false));
  ShadowInstruction& made = Emit(op, load    ? Op::kLoad
                                     : store ? Op::kStore
                                     : cas   ? Op::kCompareAndSwap
                                             : Op::kAtomic);
  made.out = access.result;
  made.kind = made.out_kind = *kind;
  made.extra = static_cast<int>(program_.accesses.size());
  made.lanes = lanes;
  program_.accesses.push_back(std::move(access));
  return {};
}

Status ShadowCompiler::Dot(const TtirOp& op) {
  if (op.operands.size() != 3 || op.results.size() != 1) return Refuse(op, "has an unknown form");
  const ShadowSlot a = KOPT_TRY(Shape(op, op.operands[0]));
  const ShadowSlot b = KOPT_TRY(Shape(op, op.operands[1]));
  const size_t rank = a.shape.size();
  if (rank < 2 || b.shape.size() != rank || a.kind != b.kind) return Refuse(op, "has other shapes");
  ShadowDot dot;
  if (rank == 3) dot.batch = a.shape[0];
  dot.m = a.shape[rank - 2];
  dot.k = a.shape[rank - 1];
  dot.n = b.shape[rank - 1];
  if (b.shape[rank - 2] != dot.k || rank > 3) return Refuse(op, "has other shapes");
  dot.tf32 = op.attributes.find("tf32") != std::string::npos && a.kind == ShadowKind::kF32;
  ++program_.unspecified;
  const int left = Full(op, SlotOf(op.operands[0])), right = Full(op, SlotOf(op.operands[1]));
  const int sum = Full(op, SlotOf(op.operands[2]));
  const int out = KOPT_TRY(ResultSlot(op, false, false));
  ShadowInstruction& made = Emit(op, Op::kDot);
  made.out = out;
  made.a = left;
  made.b = right;
  made.c = sum;
  made.kind = a.kind;
  made.out_kind = At(out).kind;
  made.lanes = At(out).stored();
  made.extra = static_cast<int>(program_.dots.size());
  program_.dots.push_back(dot);
  return {};
}

Status ShadowCompiler::Reduction(const TtirOp& op) {
  ShadowReduction reduction;
  reduction.scan = op.name == "tt.scan";
  const auto axis = IntegerAfter(op.attributes, "axis");
  if (!axis || op.operands.empty() || op.results.size() != op.operands.size() ||
      op.regions.size() != 1 || op.regions[0].blocks.size() != 1)
    return Refuse(op, "has an unknown form");
  reduction.reverse = op.attributes.find("reverse = true") != std::string::npos;
  const ShadowSlot shape = KOPT_TRY(Shape(op, op.operands[0]));
  if (*axis < 0 || *axis >= static_cast<int64_t>(shape.shape.size()))
    return Refuse(op, fmt::format("has the axis {}", *axis));
  for (size_t i = 0; i < shape.shape.size(); ++i) {
    const int64_t size = shape.shape[i];
    if (static_cast<int64_t>(i) < *axis) reduction.outer *= size;
    if (static_cast<int64_t>(i) == *axis) reduction.length = size;
    if (static_cast<int64_t>(i) > *axis) reduction.inner *= size;
  }
  if ((reduction.length & (reduction.length - 1)) != 0)
    return Refuse(op, "is over an axis that is no power of two");
  for (ValueId value : op.operands) reduction.inputs.push_back(Full(op, SlotOf(value)));
  const TtirBlock& block = op.regions[0].blocks[0];
  const size_t count = op.operands.size();
  if (block.arguments.size() != 2 * count || block.ops.empty() ||
      block.ops.back().operands.size() != count)
    return Refuse(op, "has an unknown form");

  const int64_t other = reduction.outer * reduction.inner;
  // Before the region's own values, which must not share memory with them.
  for (ValueId value : op.results) {
    ShadowSlot slot = KOPT_TRY(Shape(op, value));
    const int64_t lanes = reduction.scan ? other * reduction.length : other;
    if (slot.lanes != lanes) return Refuse(op, "has a result of another shape");
    reduction.outputs.push_back(NewSlot(std::move(slot), false));
    Define(value, reduction.outputs.back(), false);
  }
  for (int input : reduction.inputs) {
    ShadowSlot work = At(input);
    reduction.work.push_back(NewSlot(std::move(work), false));
  }
  Ops code;
  Ops* const outside = code_;
  code_ = &code;
  region_lanes_ = reduction.scan ? other : std::max<int64_t>(other * reduction.length / 2, 1);
  for (size_t i = 0; i < 2 * count; ++i) {
    ShadowSlot slot = KOPT_TRY(Shape(op, block.arguments[i]));
    slot.lanes = region_lanes_;
    slot.uniform = false;
    const int made = NewSlot(std::move(slot), false);
    Define(block.arguments[i], made, false);
    (i < count ? reduction.left : reduction.right).push_back(made);
  }
  KOPT_CHECK_OK(Block(block));
  for (ValueId value : block.ops.back().operands) {
    int result = SlotOf(value);
    // What is handed through must not be an argument at the same time.
    if (std::ranges::find(block.arguments, value) != block.arguments.end()) {
      ShadowSlot copy = At(result);
      const int from = result;
      result = NewSlot(std::move(copy), true);
      Move(op, result, from);
      code.back().lanes = -1;
    }
    reduction.results.push_back(result);
  }
  region_lanes_ = 0;
  code_ = outside;
  if (count == 1 && code.size() == 1 && code[0].out == reduction.results[0] && code[0].c < 0) {
    const ShadowInstruction& only = code[0];
    const bool both = (only.a == reduction.left[0] && only.b == reduction.right[0]) ||
                      (only.b == reduction.left[0] && only.a == reduction.right[0]);
    static const std::set<Op> kCommutative = {
        Op::kAdd,  Op::kMul,      Op::kAnd,      Op::kOr,      Op::kXor,
        Op::kMinS, Op::kMaxS,     Op::kMinU,     Op::kMaxU,    Op::kAddF,
        Op::kMulF, Op::kMaximumF, Op::kMinimumF, Op::kMaxNumF, Op::kMinNumF};
    reduction.is_single = both && kCommutative.contains(only.op) && only.kind != ShadowKind::kF16 &&
                          only.kind != ShadowKind::kBF16;
    reduction.single = only.op;
  }
  if (std::ranges::any_of(op.results,
                          [&](ValueId v) { return IsFloatType(ElementType(module_.TypeOf(v))); }))
    ++program_.unspecified;
  reduction.code = std::move(code);
  for (ValueId value : block.arguments) Release(value);
  for (int slot : reduction.work) ReleaseSlot(slot);
  ShadowInstruction& made = Emit(op, reduction.scan ? Op::kScan : Op::kReduce);
  made.extra = static_cast<int>(program_.reductions.size());
  made.kind = made.out_kind = At(reduction.inputs[0]).kind;
  made.out = reduction.outputs[0];
  made.lanes = shape.lanes;
  program_.reductions.push_back(std::move(reduction));
  return {};
}

}  // namespace kernelopt
