#include "shadow/compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "ttir/expressions.h"

namespace kernelopt {
namespace {

/// A tensor of more lanes is no kernel that a GPU runs (triton's limit is 2^20).
constexpr int64_t kMostLanes = int64_t{1} << 21;

int64_t RoundUp(int64_t bytes) {
  int64_t size = 64;
  while (size < bytes) size *= 2;
  return size;
}

}  // namespace

int SlotBytes(ShadowKind kind) {
  switch (kind) {
    case ShadowKind::kI1:
    case ShadowKind::kI8:
      return 1;
    case ShadowKind::kI16:
      return 2;
    case ShadowKind::kI64:
    case ShadowKind::kF64:
    case ShadowKind::kPointer:
      return 8;
    default:
      return 4;
  }
}

int MemoryBytes(ShadowKind kind) {
  return kind == ShadowKind::kF16 || kind == ShadowKind::kBF16 ? 2 : SlotBytes(kind);
}

bool IsFloat(ShadowKind kind) {
  return kind >= ShadowKind::kF16 && kind <= ShadowKind::kF64;
}

std::unexpected<Error> ShadowCompiler::Refuse(const TtirOp& op, std::string_view why) const {
  return Fail(ErrorKind::kUsage, "not_evaluable",
              fmt::format("{} in line {} {}", op.name, op.line, why));
}

// --- Uses

void ShadowCompiler::UsesOf(const TtirOp& op, std::vector<ValueId>* uses) const {
  const auto add = [uses](const std::vector<ValueId>& values) {
    uses->insert(uses->end(), values.begin(), values.end());
  };
  add(op.operands);
  add(op.initial);
  for (const TtirOp::Successor& successor : op.successors) add(successor.arguments);
  if (auto it = fused_.find(&op); it != fused_.end()) add(it->second->operands);
  for (const TtirRegion& region : op.regions)
    for (const TtirBlock& block : region.blocks)
      for (const TtirOp& inner : block.ops) UsesOf(inner, uses);
}

void ShadowCompiler::FindLastUses(const TtirBlock& block) {
  std::set<ValueId> own;
  for (size_t i = 0; i < block.ops.size(); ++i) {
    const TtirOp& op = block.ops[i];
    std::vector<ValueId> uses;
    UsesOf(op, &uses);
    for (ValueId value : uses)
      if (own.contains(value)) last_use_[value] = static_cast<int>(i);
    for (ValueId value : op.results) {
      own.insert(value);
      last_use_[value] = static_cast<int>(i);
    }
    for (const TtirRegion& region : op.regions)
      for (const TtirBlock& inner : region.blocks) FindLastUses(inner);
  }
}

/// Which additions take a product's factors, as the GPU's compiler has it: inside
/// one block, the product with fewer uses first, also where it has others.
void ShadowCompiler::FindFusions(const TtirBlock& block) {
  std::set<const TtirOp*> products;
  std::map<const TtirOp*, int> taken;
  for (const TtirOp& op : block.ops) {
    for (const TtirRegion& region : op.regions)
      for (const TtirBlock& inner : region.blocks) FindFusions(inner);
    if (op.results.size() != 1) continue;
    const std::string_view element = ElementType(module_.TypeOf(op.results[0]));
    if (element != "f32" && element != "f64") continue;
    if (op.name == "arith.mulf") products.insert(&op);
    if (op.name != "arith.addf" && op.name != "arith.subf") continue;
    const TtirOp* chosen = nullptr;
    for (ValueId operand : op.operands) {
      auto it = definition_.find(operand);
      if (it == definition_.end() || !products.contains(it->second)) continue;
      if (chosen == nullptr || use_count_[operand] < use_count_[chosen->results[0]])
        chosen = it->second;
    }
    if (chosen == nullptr) continue;
    // x + x has two uses of one product, of which one stays.
    fused_[&op] = chosen;
    ++taken[chosen];
    ++program_.contracted;
  }
  for (const auto& [product, count] : taken)
    if (use_count_[product->results[0]] == count) absorbed_.insert(product);
}

// --- Values and memory

Result<ShadowSlot> ShadowCompiler::Shape(const TtirOp& op, ValueId value) const {
  const std::string& type = module_.TypeOf(value);
  const auto kind = KindOf(ElementType(type));
  if (!kind) return Refuse(op, fmt::format("works on '{}', which is not evaluated", type));
  ShadowSlot slot;
  slot.kind = *kind;
  slot.shape = TensorShape(type);
  for (int64_t size : slot.shape) {
    if (size < 1 || size > kMostLanes) return Refuse(op, fmt::format("has the shape of {}", type));
    slot.lanes *= size;
    if (slot.lanes > kMostLanes) return Refuse(op, fmt::format("has the shape of {}", type));
  }
  slot.uniform = slot.lanes == 1;
  return slot;
}

int ShadowCompiler::NewSlot(ShadowSlot slot, bool persistent) {
  const int64_t bytes = RoundUp(slot.stored() * SlotBytes(slot.kind));
  Buffer buffer{.bytes = bytes, .uses = 1, .persistent = persistent || keep_all_};
  if (std::vector<int64_t>& free = free_[bytes]; !buffer.persistent && !free.empty()) {
    buffer.offset = free.back();
    free.pop_back();
  } else {
    buffer.offset = program_.arena_bytes;
    program_.arena_bytes += bytes;
  }
  slot.offset = buffer.offset;
  program_.largest_lanes = std::max(program_.largest_lanes, slot.stored());
  buffers_.push_back(buffer);
  buffer_of_.push_back(static_cast<int>(buffers_.size()) - 1);
  program_.slots.push_back(std::move(slot));
  return static_cast<int>(program_.slots.size()) - 1;
}

int ShadowCompiler::NewView(int of, ShadowSlot slot) {
  slot.offset = At(of).offset;
  const int buffer = buffer_of_[static_cast<size_t>(of)];
  ++buffers_[static_cast<size_t>(buffer)].uses;
  buffer_of_.push_back(buffer);
  program_.slots.push_back(std::move(slot));
  return static_cast<int>(program_.slots.size()) - 1;
}

void ShadowCompiler::Release(ValueId value) {
  if (auto it = slot_of_.find(value); it != slot_of_.end()) ReleaseSlot(it->second);
}

void ShadowCompiler::ReleaseSlot(int slot) {
  Buffer& buffer = buffers_[static_cast<size_t>(buffer_of_[static_cast<size_t>(slot)])];
  if (--buffer.uses == 0 && !buffer.persistent) free_[buffer.bytes].push_back(buffer.offset);
}

void ShadowCompiler::Define(ValueId value, int slot, bool invariant) {
  slot_of_[value] = slot;
  if (invariant) invariant_.insert(value);
}

bool ShadowCompiler::AllInvariant(const std::vector<ValueId>& values) const {
  return std::ranges::all_of(values, [&](ValueId v) { return IsInvariant(v); });
}

bool ShadowCompiler::AllUniform(const std::vector<ValueId>& values) const {
  return std::ranges::all_of(values, [&](ValueId v) { return At(SlotOf(v)).uniform; });
}

Result<int> ShadowCompiler::ResultSlot(const TtirOp& op, bool uniform, bool invariant) {
  ShadowSlot slot = KOPT_TRY(Shape(op, op.results[0]));
  if (region_lanes_ > 0) {
    slot.lanes = region_lanes_;
    slot.uniform = false;
  }
  slot.uniform = slot.uniform || uniform;
  const int made = NewSlot(std::move(slot), invariant);
  Define(op.results[0], made, invariant);
  return made;
}

ShadowInstruction& ShadowCompiler::Emit(const TtirOp& op, ShadowOp what, bool invariant) {
  Ops& to = invariant ? program_.prologue : *code_;
  ShadowInstruction& made = to.emplace_back();
  made.op = what;
  made.line = op.line;
  made.source_line = op.source_line;
  return made;
}

void ShadowCompiler::Move(const TtirOp& op, int to, int from) {
  if (to == from) return;
  ShadowInstruction& move = Emit(op, ShadowOp::kCopy);
  move.out = to;
  move.a = from;
  move.kind = move.out_kind = At(to).kind;
  move.lanes = At(to).stored();
}

void ShadowCompiler::MoveAll(const TtirOp& op, const std::vector<int>& to,
                             const std::vector<int>& from) {
  // One that is read after it was written goes through a copy.
  std::vector<int> source = from;
  const auto buffer = [&](int slot) { return buffer_of_[static_cast<size_t>(slot)]; };
  for (size_t i = 0; i < to.size(); ++i) {
    const bool overwritten = std::any_of(to.begin(), to.begin() + static_cast<ptrdiff_t>(i),
                                         [&](int t) { return buffer(t) == buffer(from[i]); });
    if (!overwritten) continue;
    ShadowSlot copy = At(from[i]);
    source[i] = NewSlot(std::move(copy), true);
    Move(op, source[i], from[i]);
  }
  for (size_t i = 0; i < to.size(); ++i) Move(op, to[i], source[i]);
}

/// The slot with every lane stored.
int ShadowCompiler::Full(const TtirOp& op, int slot) {
  if (!At(slot).uniform || At(slot).lanes == 1) return slot;
  ShadowSlot full = At(slot);
  full.uniform = false;
  const int made = NewSlot(std::move(full), true);
  Move(op, made, slot);
  return made;
}

// --- Control

std::vector<int> ShadowCompiler::Slots(const std::vector<ValueId>& values) const {
  std::vector<int> slots;
  for (ValueId value : values) slots.push_back(SlotOf(value));
  return slots;
}

Status ShadowCompiler::Block(const TtirBlock& block) {
  for (size_t i = 0; i < block.ops.size(); ++i) {
    const TtirOp& op = block.ops[i];
    KOPT_CHECK_OK(Operation(op));
    std::vector<ValueId> uses;
    UsesOf(op, &uses);
    std::set<ValueId> dead(uses.begin(), uses.end());
    dead.insert(op.results.begin(), op.results.end());
    for (ValueId value : dead) {
      auto it = last_use_.find(value);
      auto at = definition_.find(value);
      if (it == last_use_.end() || it->second != static_cast<int>(i) || at == definition_.end())
        continue;
      // Only values of this block.
      const TtirOp* defined = at->second;
      if (defined < block.ops.data() || defined >= block.ops.data() + block.ops.size()) continue;
      Release(value);
    }
  }
  return {};
}

Result<std::vector<int>> ShadowCompiler::CarriedSlots(const TtirOp& op,
                                                      const std::vector<ValueId>& values) {
  std::vector<int> slots;
  for (ValueId value : values) {
    slots.push_back(NewSlot(KOPT_TRY(Shape(op, value)), false));
    Define(value, slots.back(), false);
  }
  return slots;
}

Status ShadowCompiler::For(const TtirOp& op) {
  if (op.operands.size() != 3 || op.regions.size() != 1 || op.regions[0].blocks.size() != 1)
    return Refuse(op, "has an unknown form");
  const TtirBlock& block = op.regions[0].blocks[0];
  // A loop that carries nothing may have no scf.yield at its end.
  std::vector<ValueId> given;
  if (!op.initial.empty() && !block.ops.empty()) given = block.ops.back().operands;
  if (block.arguments.size() != op.initial.size() + 1 || op.results.size() != op.initial.size() ||
      given.size() != op.initial.size())
    return Refuse(op, "has an unknown form");
  const std::vector<int> all = KOPT_TRY(CarriedSlots(op, block.arguments));
  const int induction = all[0];
  const std::vector<int> carried(all.begin() + 1, all.end());
  Move(op, induction, SlotOf(op.operands[0]));
  MoveAll(op, carried, Slots(op.initial));
  const int start = static_cast<int>(code_->size());
  ShadowInstruction& test = Emit(op, ShadowOp::kLoopTest);
  test.a = induction;
  test.b = SlotOf(op.operands[1]);
  test.kind = At(induction).kind;
  KOPT_CHECK_OK(Block(block));
  if (!given.empty()) MoveAll(block.ops.back(), carried, Slots(given));
  ShadowInstruction& step = Emit(op, ShadowOp::kLoopStep);
  step.a = induction;
  step.b = SlotOf(op.operands[2]);
  step.kind = At(induction).kind;
  step.target = start;
  (*code_)[static_cast<size_t>(start)].target = static_cast<int>(code_->size());
  for (size_t i = 0; i < op.results.size(); ++i)
    Define(op.results[i], NewView(carried[i], At(carried[i])), false);
  for (ValueId value : block.arguments) Release(value);
  return {};
}

Status ShadowCompiler::While(const TtirOp& op) {
  if (op.regions.size() != 2 || op.regions[0].blocks.size() != 1 ||
      op.regions[1].blocks.size() != 1)
    return Refuse(op, "has an unknown form");
  const TtirBlock& before = op.regions[0].blocks[0];
  const TtirBlock& after = op.regions[1].blocks[0];
  if (before.ops.empty() || before.ops.back().name != "scf.condition" || after.ops.empty() ||
      before.arguments.size() != op.initial.size() ||
      before.ops.back().operands.size() != op.results.size() + 1 ||
      after.arguments.size() != op.results.size() ||
      after.ops.back().operands.size() != before.arguments.size())
    return Refuse(op, "has an unknown form");
  const std::vector<int> carried = KOPT_TRY(CarriedSlots(op, before.arguments));
  const std::vector<int> handed = KOPT_TRY(CarriedSlots(op, after.arguments));
  MoveAll(op, carried, Slots(op.initial));
  const int start = static_cast<int>(code_->size());
  KOPT_CHECK_OK(Block(before));
  const TtirOp& condition = before.ops.back();
  const std::vector<int> given = Slots(condition.operands);
  MoveAll(condition, handed, std::vector<int>(given.begin() + 1, given.end()));
  const int leave = static_cast<int>(code_->size());
  Emit(condition, ShadowOp::kJumpUnless).a = given[0];
  KOPT_CHECK_OK(Block(after));
  MoveAll(after.ops.back(), carried, Slots(after.ops.back().operands));
  ShadowInstruction& back = Emit(op, ShadowOp::kBackEdge);
  back.target = start;
  back.extra = static_cast<int>(program_.lists.size());
  program_.lists.push_back(carried);
  WalkOps(op.regions[0], [&](const TtirOp& inner) {
    if (inner.name == "tt.load") program_.may_wait = true;
  });
  (*code_)[static_cast<size_t>(leave)].target = static_cast<int>(code_->size());
  for (size_t i = 0; i < op.results.size(); ++i)
    Define(op.results[i], NewView(handed[i], At(handed[i])), false);
  for (ValueId value : before.arguments) Release(value);
  for (ValueId value : after.arguments) Release(value);
  return {};
}

Status ShadowCompiler::If(const TtirOp& op) {
  if (op.operands.size() != 1 || op.regions.empty() || op.regions.size() > 2)
    return Refuse(op, "has an unknown form");
  const std::vector<int> results = KOPT_TRY(CarriedSlots(op, op.results));
  const int branch = static_cast<int>(code_->size());
  int jump = -1;
  Emit(op, ShadowOp::kJumpUnless).a = SlotOf(op.operands[0]);
  for (size_t r = 0; r < op.regions.size(); ++r) {
    if (op.regions[r].blocks.size() != 1) return Refuse(op, "has an unknown form");
    const TtirBlock& block = op.regions[r].blocks[0];
    KOPT_CHECK_OK(Block(block));
    if (!op.results.empty()) {
      if (block.ops.empty() || block.ops.back().operands.size() != results.size())
        return Refuse(op, "has an unknown form");
      MoveAll(block.ops.back(), results, Slots(block.ops.back().operands));
    }
    if (r == 0) {
      if (op.regions.size() == 2) {
        jump = static_cast<int>(code_->size());
        Emit(op, ShadowOp::kJump);
      }
      (*code_)[static_cast<size_t>(branch)].target = static_cast<int>(code_->size());
    }
  }
  if (jump >= 0) (*code_)[static_cast<size_t>(jump)].target = static_cast<int>(code_->size());
  return {};
}

Status ShadowCompiler::Body(const TtirRegion& region) {
  keep_all_ = region.blocks.size() > 1;
  for (size_t i = 0; i < region.blocks.size(); ++i) {
    const TtirBlock& block = region.blocks[i];
    blocks_[block.label] = &block;
    if (i == 0) continue;  // the parameters
    for (ValueId value : block.arguments) {
      TtirOp none;
      none.name = "block";
      const int slot = NewSlot(KOPT_TRY(Shape(none, value)), true);
      Define(value, slot, false);
    }
  }
  for (const TtirBlock& block : region.blocks) {
    block_starts_[block.label] = static_cast<int>(code_->size());
    KOPT_CHECK_OK(Block(block));
  }
  for (const auto& [at, label] : jumps_) {
    auto it = block_starts_.find(label);
    if (it == block_starts_.end())
      return Fail(ErrorKind::kUsage, "not_evaluable",
                  fmt::format("line {} jumps to '{}', which is no block",
                              (*code_)[static_cast<size_t>(at)].line, label));
    (*code_)[static_cast<size_t>(at)].target = it->second;
  }
  return {};
}

Result<ShadowProgram> ShadowCompiler::Compile() {
  const TtirFunction* entry = module_.Entry();
  if (entry == nullptr || entry->body.blocks.empty())
    return Fail(ErrorKind::kUsage, "not_evaluable", "the module has no single public function");
  WalkOps(entry->body, [&](const TtirOp& op) {
    for (ValueId value : op.results) definition_[value] = &op;
    std::vector<ValueId> direct = op.operands;
    direct.insert(direct.end(), op.initial.begin(), op.initial.end());
    for (const TtirOp::Successor& s : op.successors)
      direct.insert(direct.end(), s.arguments.begin(), s.arguments.end());
    for (ValueId value : direct) ++use_count_[value];
  });
  if (options_.fuse)
    for (const TtirBlock& block : entry->body.blocks) FindFusions(block);
  for (const TtirBlock& block : entry->body.blocks) FindLastUses(block);
  program_.name = entry->name;
  program_.unspecified = program_.contracted;
  code_ = &program_.code;
  for (ValueId value : entry->parameters) {
    TtirOp none;
    none.name = "tt.func";
    none.line = entry->line;
    ShadowSlot slot = KOPT_TRY(Shape(none, value));
    if (slot.lanes != 1) return Refuse(none, "has a tensor as a parameter");
    ShadowParameter parameter{.kind = slot.kind};
    parameter.is_pointer = slot.kind == ShadowKind::kPointer;
    if (parameter.is_pointer) {
      const auto pointee = KindOf(PointeeType(module_.TypeOf(value)));
      if (!pointee || *pointee == ShadowKind::kPointer)
        return Refuse(none, fmt::format("has a parameter of type {}", module_.TypeOf(value)));
      parameter.kind = *pointee;
    }
    parameter.slot = NewSlot(std::move(slot), true);
    Define(value, parameter.slot, true);
    program_.parameters.push_back(parameter);
  }
  KOPT_CHECK_OK(Body(entry->body));
  program_.code.emplace_back();  // kReturn
  return std::move(program_);
}

Result<ShadowProgram> CompileShadowProgram(const TtirModule& module, const ShadowOptions& options) {
  return ShadowCompiler(module, options).Compile();
}

}  // namespace kernelopt
