// Inside of CompileShadowProgram: slots and their memory, one operation after the
// other. program.h says what comes out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shadow/program.h"

namespace kernelopt {

/// Memory of values that are computed once a worker; beyond it they are computed
/// where they stand.
inline constexpr int64_t kHoistedBytes = 4 << 20;

/// The kind of an element type: "bf16", "!tt.ptr<f32>"; nothing for others.
std::optional<ShadowKind> KindOf(std::string_view element_type);

/// A constant's literal as a slot of `kind` keeps it.
std::optional<uint64_t> SlotBits(std::string_view literal, ShadowKind kind);

/// The integer after `key` in an operation's attributes.
std::optional<int64_t> IntegerAfter(std::string_view attributes, std::string_view key);

class ShadowCompiler {
 public:
  ShadowCompiler(const TtirModule& module, const ShadowOptions& options)
      : module_(module), options_(options) {}
  Result<ShadowProgram> Compile();

 private:
  using Ops = std::vector<ShadowInstruction>;
  /// Memory in the arena that slots share.
  struct Buffer {
    int64_t offset = 0, bytes = 0;
    int uses = 0;             ///< live values in it
    bool persistent = false;  ///< never given to others
  };

  // --- compiler.cc: values and memory
  std::unexpected<Error> Refuse(const TtirOp& op, std::string_view why) const;
  void FindLastUses(const TtirBlock& block);
  void FindFusions(const TtirBlock& block);
  void UsesOf(const TtirOp& op, std::vector<ValueId>* uses) const;
  Result<ShadowSlot> Shape(const TtirOp& op, ValueId value) const;
  int NewSlot(ShadowSlot slot, bool persistent);
  int NewView(int of, ShadowSlot slot);
  void Release(ValueId value);
  void ReleaseSlot(int slot);
  void Define(ValueId value, int slot, bool invariant);
  int SlotOf(ValueId value) const { return slot_of_.at(value); }
  bool IsInvariant(ValueId value) const { return invariant_.contains(value); }
  bool AllInvariant(const std::vector<ValueId>& values) const;
  bool AllUniform(const std::vector<ValueId>& values) const;
  const ShadowSlot& At(int slot) const { return program_.slots[static_cast<size_t>(slot)]; }
  /// A slot for the op's only result; in region code as many lanes as are combined.
  Result<int> ResultSlot(const TtirOp& op, bool uniform, bool invariant);
  ShadowInstruction& Emit(const TtirOp& op, ShadowOp what, bool invariant = false);
  void Move(const TtirOp& op, int to, int from);
  void MoveAll(const TtirOp& op, const std::vector<int>& to, const std::vector<int>& from);
  int Full(const TtirOp& op, int slot);

  // --- compiler.cc: control
  Status Block(const TtirBlock& block);
  Status Body(const TtirRegion& region);
  Status Operation(const TtirOp& op);
  Status For(const TtirOp& op);
  Status While(const TtirOp& op);
  Status If(const TtirOp& op);
  Result<std::vector<int>> CarriedSlots(const TtirOp& op, const std::vector<ValueId>& values);
  std::vector<int> Slots(const std::vector<ValueId>& values) const;

  // --- compiler_operations.cc
  Status Constant(const TtirOp& op);
  Status View(const TtirOp& op);
  Status Shaped(const TtirOp& op, bool* known);
  Status Memory(const TtirOp& op, bool* known);
  Status Reduction(const TtirOp& op);
  Status Dot(const TtirOp& op);
  Status Library(const TtirOp& op);
  Status Elementwise(const TtirOp& op, ShadowOp what, int variant = 0);
  Status Contracted(const TtirOp& op, bool* done);
  Status Compare(const TtirOp& op);
  Status Simple(const TtirOp& op);

  const TtirModule& module_;
  const ShadowOptions& options_;
  ShadowProgram program_;
  Ops* code_ = nullptr;
  std::map<ValueId, int> slot_of_;
  std::set<ValueId> invariant_;
  std::vector<Buffer> buffers_;
  std::vector<int> buffer_of_;                    // by slot
  std::map<int64_t, std::vector<int64_t>> free_;  // bytes -> offsets
  std::map<ValueId, int> last_use_;               // index of the op in the value's block
  std::map<ValueId, const TtirOp*> definition_;
  std::map<ValueId, int> use_count_;
  std::map<const TtirOp*, const TtirOp*> fused_;  // addition -> product
  std::set<const TtirOp*> absorbed_;              // products that nobody else needs
  bool keep_all_ = false;                         // in a body of several blocks
  int64_t region_lanes_ = 0;                      // in a reduction's region: lanes at most
  int64_t hoisted_bytes_ = 0;
  std::map<std::string, int> block_starts_;
  std::map<std::string, const TtirBlock*> blocks_;
  std::vector<std::pair<int, std::string>> jumps_;  // instruction -> label
};

}  // namespace kernelopt
