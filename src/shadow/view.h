// One worker's sight of the memory while a launch runs: what was there before, and
// pages of its own for what its instances store, with who stored and who read each
// element. The checks of evaluator.h happen here.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "shadow/evaluator.h"

namespace kernelopt {

/// The segment of an element that atomics write.
inline constexpr uint32_t kAtomicSegment = 0xFFFFFFFF;

/// The operands of an access; null masks are true, null others zero.
struct AccessLanes {
  const uint64_t* pointers = nullptr;
  bool pointers_uniform = false;
  const uint8_t* mask = nullptr;
  bool mask_uniform = false;
  const void* value = nullptr;  ///< stored, or what a load gives where the mask is false
  bool value_uniform = false;
  const void* compare = nullptr;  ///< of compare-and-swap
  bool compare_uniform = false;
  void* out = nullptr;
  int64_t lanes = 0;
};

class ShadowView {
 public:
  /// `launch` and `memory` outlive this.
  ShadowView(ShadowMemory& memory, const ShadowLaunch& launch);

  /// Another instance, by its place in launch.instances, from its first instruction.
  void Enter(uint32_t instance);
  void Barrier() { segment_ = NewSegment(); }
  uint32_t segment() const { return segment_; }
  /// Goes on with an instance that was set aside.
  void Resume(uint32_t instance, uint32_t segment);

  void Load(const ShadowInstruction& instruction, const AccessLanes& lanes);
  void Store(const ShadowInstruction& instruction, const AccessLanes& lanes);
  void Atomic(const ShadowInstruction& instruction, const AccessLanes& lanes);

  /// Counts changes of the memory.
  uint64_t version() const { return version_; }
  ShadowFinding& Note(ShadowFinding::Kind kind, const ShadowInstruction& instruction);
  /// The size that an access wanted and the storage has not.
  const std::string& error() const { return error_; }

  /// Compares with what another worker did, then moves this one's pages into the
  /// storages. Call Check for all pairs before the first Commit.
  void Check(ShadowView& other);
  void Commit();

  using Findings = std::map<std::tuple<int, int, int>, ShadowFinding>;
  Findings& findings() { return findings_; }

 private:
  struct Local {
    ShadowStorage* storage = nullptr;
    bool tracked = true;  ///< reads are recorded
    ShadowPages pages;
    int64_t last_number = -1;
    ShadowPage* last = nullptr;
    std::unordered_map<int64_t, const char*> inputs;  ///< generated pages, in input_chunks_
    int64_t last_input = -1;
    const char* input = nullptr;
  };
  struct Place {
    const ShadowInstruction* instruction;
    int number;
    Local* local;
    int64_t page, at, lane;
    bool many = false;  ///< other lanes read the same element
  };

  uint32_t NewSegment();
  uint32_t InstanceOf(uint32_t segment) const { return segment_instances_[segment]; }
  Local* Find(uint64_t address);
  ShadowPage* FindPage(Local& local, int64_t page);
  ShadowPage& MakePage(Local& local, int64_t page);
  /// The part of a run that is inside; notes the rest.
  bool Clip(const ShadowInstruction& instruction, uint64_t address, int64_t* lane, int64_t* count,
            Local** local, int64_t* index, bool store);
  void ReadRun(const ShadowInstruction& instruction, uint64_t address, int64_t lane, int64_t count,
               bool many, char* out);
  void WriteRun(const ShadowInstruction& instruction, uint64_t address, int64_t lane, int64_t count,
                const char* from);
  void ReadSegment(const Place& place, int64_t count, char* out);
  void WriteSegment(const Place& place, int64_t count, const char* from);
  void ReadElement(const Place& place, ShadowPage& page, char* out);
  void WriteElement(const Place& place, ShadowPage& page, const char* from);
  void Before(Local& local, int64_t page, int64_t at, int64_t count, char* out);
  uint64_t ElementBefore(Local& local, int64_t page, int64_t at);
  void Input(Local& local, int64_t page, int64_t at, int64_t count, char* out);
  void NoteConflict(ShadowFinding::Kind kind, const Place& place, uint32_t access, bool store);
  const ShadowAccess& AccessOf(const ShadowInstruction& instruction) const;

  ShadowMemory& memory_;
  const ShadowLaunch& launch_;
  std::vector<Local> locals_;
  std::vector<uint32_t> segment_instances_ = {0};
  uint32_t instance_ = 0, segment_ = 0;
  uint64_t version_ = 0;
  std::vector<std::unique_ptr<char[]>> input_chunks_;
  int64_t input_bytes_ = 0;
  std::vector<char> raw_;
  std::vector<uint64_t> addresses_;
  std::vector<const ShadowInstruction*> accesses_;  // by access
  Findings findings_;
  std::string error_;
};

}  // namespace kernelopt
