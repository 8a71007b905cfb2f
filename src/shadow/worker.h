// Executes a program's instructions for the instances of one worker.
#pragma once

#include <memory>
#include <vector>

#include "shadow/view.h"

namespace kernelopt {

/// An instance that runs or was set aside: its arena and its place in the code.
struct ShadowState {
  uint32_t instance = 0, segment = 0;
  int pc = 0;
  std::unique_ptr<char[]> arena;
  /// At the last end of an iteration of a loop that may wait.
  uint64_t loop_print = 0, loop_version = 0;
  int loop_pc = -1;
  bool waits = false;
};

class ShadowWorker {
 public:
  ShadowWorker(ShadowMemory& memory, const ShadowLaunch& launch);

  /// launch.instances [begin, end), one after the other.
  void Run(uint32_t begin, uint32_t end);
  /// All instances in turns, for programs whose instances may wait. An error where more of
  /// them wait at a time than fit into the memory.
  Status RunInTurns();

  ShadowView& view() { return view_; }
  int64_t work() const { return work_; }
  int64_t finished() const { return finished_; }
  /// By instruction: 1 = its branch was taken, 2 = it was not.
  const std::vector<uint8_t>& branches() const { return branches_; }

 private:
  enum class Stop { kDone, kTurn, kLimit };

  std::unique_ptr<char[]> NewArena() const;
  void Start(ShadowState* state, uint32_t instance);
  Stop Execute(ShadowState* state, const std::vector<ShadowInstruction>& code);
  void Compute(const ShadowInstruction& instruction, int64_t lanes);
  void Shape(const ShadowInstruction& instruction, int64_t lanes);
  void Access(const ShadowInstruction& instruction);
  void Reduce(const ShadowInstruction& instruction);
  void GeneralReduce(const ShadowReduction& reduction);
  void GeneralScan(const ShadowReduction& reduction);
  void Assert(const ShadowInstruction& instruction);
  uint64_t Print(const std::vector<int>& slots) const;
  int64_t Scalar(int slot) const;

  const ShadowSlot& Slot(int slot) const { return program_.slots[static_cast<size_t>(slot)]; }
  char* At(int slot) const { return arena_ + Slot(slot).offset; }

  const ShadowLaunch& launch_;
  const ShadowProgram& program_;
  ShadowView view_;
  std::unique_ptr<char[]> initial_;  ///< constants, arguments, what instances share
  char* arena_ = nullptr;
  ShadowInstance instance_{};
  int64_t work_ = 0, finished_ = 0, most_work_ = 0;
  int since_turn_ = 0;
  std::vector<uint8_t> branches_;
};

}  // namespace kernelopt
