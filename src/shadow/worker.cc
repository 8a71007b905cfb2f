#include "shadow/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include "shadow/lanes.h"

namespace kernelopt {
namespace {

/// Memory of instances that wait.
constexpr int64_t kWaitingBytes = int64_t{256} << 20;
/// Iterations after which another instance has its turn.
constexpr int kTurn = 1000;

using Op = ShadowOp;

}  // namespace

ShadowWorker::ShadowWorker(ShadowMemory& memory, const ShadowLaunch& launch)
    : launch_(launch),
      program_(*launch.program),
      view_(memory, launch),
      most_work_(launch.most_work),
      branches_(program_.code.size()) {
  initial_ = NewArena();
  arena_ = initial_.get();
  std::memset(arena_, 0, static_cast<size_t>(program_.arena_bytes));
  for (const ShadowProgram::Constant& constant : program_.constants)
    std::memcpy(At(constant.slot), &constant.bits,
                static_cast<size_t>(SlotBytes(Slot(constant.slot).kind)));
  for (const ShadowProgram::Table& table : program_.tables) {
    const size_t bytes = static_cast<size_t>(SlotBytes(Slot(table.slot).kind));
    for (size_t i = 0; i < table.bits.size(); ++i)
      std::memcpy(At(table.slot) + i * bytes, &table.bits[i], bytes);
  }
  for (size_t i = 0; i < program_.parameters.size(); ++i) {
    const ShadowParameter& parameter = program_.parameters[i];
    const ShadowArgument& argument = launch.arguments[i];
    if (parameter.is_pointer) {
      std::memcpy(At(parameter.slot), &argument.address, 8);
    } else if (!IsFloat(parameter.kind)) {
      std::memcpy(At(parameter.slot), &argument.int_value,
                  static_cast<size_t>(SlotBytes(parameter.kind)));
    } else if (parameter.kind == ShadowKind::kF64) {
      std::memcpy(At(parameter.slot), &argument.float_value, 8);
    } else {
      float value = static_cast<float>(argument.float_value);
      if (parameter.kind != ShadowKind::kF32) RoundLanes(parameter.kind, &value, 1);
      std::memcpy(At(parameter.slot), &value, 4);
    }
  }
  ShadowState state;
  Execute(&state, program_.prologue);
  work_ = 0;
}

std::unique_ptr<char[]> ShadowWorker::NewArena() const {
  return std::unique_ptr<char[]>(new char[static_cast<size_t>(program_.arena_bytes) + 64]);
}

void ShadowWorker::Start(ShadowState* state, uint32_t instance) {
  state->instance = instance;
  state->pc = 0;
  instance_ = launch_.instances[instance];
  view_.Enter(instance);
  state->segment = view_.segment();
}

void ShadowWorker::Run(uint32_t begin, uint32_t end) {
  ShadowState state;
  arena_ = initial_.get();
  for (uint32_t instance = begin; instance < end; ++instance) {
    Start(&state, instance);
    if (Execute(&state, program_.code) == Stop::kLimit) return;
    ++finished_;
  }
}

Status ShadowWorker::RunInTurns() {
  std::deque<ShadowState> active;
  uint32_t next = 0;
  const uint32_t count = static_cast<uint32_t>(launch_.instances.size());
  const int64_t most = std::max<int64_t>(2, kWaitingBytes / (program_.arena_bytes + 64));
  while (next < count || !active.empty()) {
    // One that can go on, else a new one.
    auto ready = std::find_if(active.begin(), active.end(), [&](const ShadowState& state) {
      return !state.waits || state.loop_version != view_.version();
    });
    if (ready == active.end() && next < count) {
      if (static_cast<int64_t>(active.size()) >= most)
        return Fail(
            ErrorKind::kEnvironment, "out_of_memory",
            fmt::format("{} instances wait at a time, wanted at most {}", active.size(), most));
      ShadowState& made = active.emplace_back();
      made.arena = NewArena();
      std::memcpy(made.arena.get(), initial_.get(), static_cast<size_t>(program_.arena_bytes));
      arena_ = made.arena.get();
      Start(&made, next++);
      ready = active.end() - 1;
    } else if (ready == active.end()) {
      const ShadowState& first = active.front();
      view_.Resume(first.instance, first.segment);
      ShadowFinding& finding =
          view_.Note(ShadowFinding::Kind::kDeadlock,
                     program_.code[static_cast<size_t>(std::max(first.loop_pc, 0))]);
      finding.count = static_cast<int64_t>(active.size());
      return {};
    } else {
      instance_ = launch_.instances[ready->instance];
      view_.Resume(ready->instance, ready->segment);
    }
    ready->waits = false;
    arena_ = ready->arena.get();
    const Stop stop = Execute(&*ready, program_.code);
    ready->segment = view_.segment();
    if (stop == Stop::kLimit) return {};
    if (stop == Stop::kDone) {
      ++finished_;
      active.erase(ready);
    } else {
      ShadowState moved = std::move(*ready);
      active.erase(ready);
      active.push_back(std::move(moved));
    }
  }
  return {};
}

int64_t ShadowWorker::Scalar(int slot) const {
  if (Slot(slot).kind == ShadowKind::kI64) return *reinterpret_cast<const int64_t*>(At(slot));
  if (Slot(slot).kind == ShadowKind::kI32) return *reinterpret_cast<const int32_t*>(At(slot));
  return *reinterpret_cast<const int8_t*>(At(slot));
}

uint64_t ShadowWorker::Print(const std::vector<int>& slots) const {
  uint64_t print = 1;
  for (int slot : slots) {
    const char* bytes = At(slot);
    const int64_t count = Slot(slot).stored() * SlotBytes(Slot(slot).kind);
    for (int64_t i = 0; i < count; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + i, static_cast<size_t>(std::min<int64_t>(8, count - i)));
      print = KoptMix(print + word) + 1;
    }
  }
  return print;
}

ShadowWorker::Stop ShadowWorker::Execute(ShadowState* state,
                                         const std::vector<ShadowInstruction>& code) {
  const int size = static_cast<int>(code.size());
  for (int pc = state->pc; pc < size;) {
    const ShadowInstruction& each = code[static_cast<size_t>(pc)];
    switch (each.op) {
      case Op::kReturn:
        return Stop::kDone;
      case Op::kJump:
        pc = each.target;
        continue;
      case Op::kJumpUnless: {
        const bool holds = *At(each.a) != 0;
        branches_[static_cast<size_t>(pc)] |= holds ? 1 : 2;
        pc = holds ? pc + 1 : each.target;
        continue;
      }
      case Op::kLoopTest: {
        const bool enters = Scalar(each.a) < Scalar(each.b);
        branches_[static_cast<size_t>(pc)] |= enters ? 1 : 2;
        pc = enters ? pc + 1 : each.target;
        continue;
      }
      case Op::kLoopStep: {
        const int64_t next = Scalar(each.a) + Scalar(each.b);
        std::memcpy(At(each.a), &next, static_cast<size_t>(SlotBytes(each.kind)));
        pc = each.target;
        ++work_;
        break;
      }
      case Op::kBackEdge: {
        pc = each.target;
        ++work_;
        if (!program_.may_wait) break;
        const uint64_t print = Print(program_.lists[static_cast<size_t>(each.extra)]);
        const bool same = state->loop_pc == static_cast<int>(&each - code.data()) &&
                          state->loop_print == print && state->loop_version == view_.version();
        state->loop_pc = static_cast<int>(&each - code.data());
        state->loop_print = print;
        state->loop_version = view_.version();
        if (!same && ++since_turn_ < kTurn) break;
        since_turn_ = 0;
        state->waits = same;
        state->pc = pc;
        return Stop::kTurn;
      }
      default:
        Compute(each, each.lanes);
        ++pc;
        continue;
    }
    if (work_ < most_work_) continue;
    view_.Note(ShadowFinding::Kind::kEndless, each);
    return Stop::kLimit;
  }
  return Stop::kDone;
}

void ShadowWorker::Compute(const ShadowInstruction& each, int64_t lanes) {
  if (each.op <= Op::kRoundToLong || each.op == Op::kAddPointer) {
    LaneOperands operands;
    operands.lanes = lanes;
    operands.out = At(each.out);
    operands.a = At(each.a);
    operands.a_uniform = Slot(each.a).uniform;
    if (each.b >= 0) operands.b = At(each.b), operands.b_uniform = Slot(each.b).uniform;
    if (each.c >= 0) operands.c = At(each.c), operands.c_uniform = Slot(each.c).uniform;
    work_ += lanes;
    if (each.op <= Op::kAbs) return RunIntegerLanes(each.op, each.kind, operands);
    if (each.op <= Op::kMath2) return RunFloatLanes(each.op, each.kind, each.variant, operands);
    if (each.op == Op::kAddPointer) return RunAddPointerLanes(each.kind, each.extra, operands);
    if (each.op == Op::kCompareI || each.op == Op::kCompareF)
      return RunCompareLanes(each.kind, static_cast<ShadowPredicate>(each.variant), operands);
    return RunConversionLanes(each, operands);
  }
  switch (each.op) {
    case Op::kProgramId:
      std::memcpy(At(each.out), &instance_[each.variant], 4);
      return;
    case Op::kNumPrograms: {
      const int32_t count = static_cast<int32_t>(launch_.grid[each.variant]);
      std::memcpy(At(each.out), &count, 4);
      return;
    }
    case Op::kLoad:
    case Op::kStore:
    case Op::kAtomic:
    case Op::kCompareAndSwap:
      work_ += each.lanes;
      return Access(each);
    case Op::kBarrier:
      return view_.Barrier();
    case Op::kAssert:
      return Assert(each);
    case Op::kReduce:
    case Op::kScan:
      return Reduce(each);
    case Op::kDot: {
      const ShadowDot& dot = program_.dots[static_cast<size_t>(each.extra)];
      work_ += dot.batch * dot.m * dot.n * dot.k;
      return DotLanes(dot, each.kind, each.out_kind, At(each.a), At(each.b), At(each.c),
                      At(each.out));
    }
    default:
      return Shape(each, lanes);
  }
}

void ShadowWorker::Assert(const ShadowInstruction& each) {
  const int64_t lanes = Slot(each.a).stored();
  const char* holds = At(each.a);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    if (holds[lane]) continue;
    ShadowFinding& finding = view_.Note(ShadowFinding::Kind::kAssertion, each);
    if (finding.count > 1) continue;
    finding.lane = lane;
    const std::string& text = program_.texts[static_cast<size_t>(each.extra)];
    const size_t begin = text.find('"');
    if (begin != std::string::npos) finding.text = text.substr(begin, text.rfind('"') - begin + 1);
  }
}

void ShadowWorker::Shape(const ShadowInstruction& each, int64_t lanes) {
  const int bytes = SlotBytes(each.kind);
  const size_t size = static_cast<size_t>(bytes);
  switch (each.op) {
    case Op::kCopy:
      return CopyLanes(bytes, At(each.out), At(each.a), Slot(each.a).uniform, lanes);
    case Op::kBroadcast:
      return BroadcastLanes(bytes, At(each.out), Slot(each.out).shape, At(each.a),
                            Slot(each.a).shape);
    case Op::kTranspose:
      return TransposeLanes(bytes, At(each.out), At(each.a), Slot(each.a).shape,
                            program_.lists[static_cast<size_t>(each.extra)]);
    case Op::kMakeRange: {
      int32_t* out = reinterpret_cast<int32_t*>(At(each.out));
      for (int64_t i = 0; i < lanes; ++i) out[i] = each.extra + static_cast<int32_t>(i);
      return;
    }
    case Op::kJoin:
      for (int64_t i = 0; i < lanes / 2; ++i) {
        std::memcpy(At(each.out) + 2 * i * bytes, At(each.a) + i * bytes, size);
        std::memcpy(At(each.out) + (2 * i + 1) * bytes, At(each.b) + i * bytes, size);
      }
      return;
    case Op::kSplit:
      for (int64_t i = 0; i < lanes; ++i)
        std::memcpy(At(each.out) + i * bytes, At(each.a) + (2 * i + each.variant) * bytes, size);
      return;
    case Op::kConcatenate: {
      const size_t half = size * static_cast<size_t>(lanes / 2);
      std::memcpy(At(each.out), At(each.a), half);
      std::memcpy(At(each.out) + half, At(each.b), half);
      return;
    }
    default: {  // kGather: along one axis, by the index of each lane
      const size_t axis = static_cast<size_t>(program_.lists[static_cast<size_t>(each.extra)][0]);
      const std::vector<int64_t>& to = Slot(each.out).shape;
      const std::vector<int64_t>& from = Slot(each.a).shape;
      int64_t inner = 1;
      for (size_t i = axis + 1; i < to.size(); ++i) inner *= to[i];
      const bool wide = Slot(each.b).kind == ShadowKind::kI64;
      for (int64_t i = 0; i < lanes; ++i) {
        const int64_t index = wide ? reinterpret_cast<const int64_t*>(At(each.b))[i]
                                   : reinterpret_cast<const int32_t*>(At(each.b))[i];
        const int64_t row = i / inner / to[axis];
        const int64_t at = std::clamp<int64_t>(index, 0, from[axis] - 1);
        std::memcpy(At(each.out) + i * bytes,
                    At(each.a) + ((row * from[axis] + at) * inner + i % inner) * bytes, size);
      }
    }
  }
}

void ShadowWorker::Access(const ShadowInstruction& each) {
  const ShadowAccess& access = program_.accesses[static_cast<size_t>(each.extra)];
  AccessLanes lanes;
  lanes.lanes = each.lanes;
  lanes.pointers = reinterpret_cast<const uint64_t*>(At(access.pointer));
  lanes.pointers_uniform = Slot(access.pointer).uniform;
  if (access.mask >= 0) {
    lanes.mask = reinterpret_cast<const uint8_t*>(At(access.mask));
    lanes.mask_uniform = Slot(access.mask).uniform;
  }
  const int value = each.op == Op::kLoad ? access.other : access.value;
  if (value >= 0) {
    lanes.value = At(value);
    lanes.value_uniform = Slot(value).uniform;
  }
  if (access.compare >= 0) {
    lanes.compare = At(access.compare);
    lanes.compare_uniform = Slot(access.compare).uniform;
  }
  if (access.result >= 0) lanes.out = At(access.result);
  if (each.op == Op::kLoad) return view_.Load(each, lanes);
  if (each.op == Op::kStore) return view_.Store(each, lanes);
  view_.Atomic(each, lanes);
}

}  // namespace kernelopt
