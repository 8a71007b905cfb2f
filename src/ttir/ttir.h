// Reading Triton's TTIR: the text that a compile worker leaves beside a cubin.
//
//   TtirModule module = KOPT_TRY(ReadTtir(text, "kernel.ttir"));
//   for (const TtirFunction& f : module.functions) ...
//   WalkOps(f.body, [](const TtirOp& op) { ... });
//
// The reader takes MLIR's printed form, custom and generic, as triton 3.5 to
// 3.8 write it, with or without locations. It knows the shape that all
// operations share and the few that bind values of their own (scf.for,
// scf.while, regions); what an operation means is left to the analyses
// (facts.h, roles.h). Text that it can't read is an error, never skipped: an
// operand that nothing defines, a bracket left open, an unknown structure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kernelopt {

/// Index into TtirModule::values; names are resolved by scope, so that each
/// definition has its own id.
using ValueId = int;

struct TtirValue {
  std::string name;  ///< "%x", "%y#1"
  std::string type;  ///< "tensor<8x!tt.ptr<f32>>"; empty where the text does not give it
};

struct TtirOp;

struct TtirBlock {
  std::string label;               ///< "^bb0" or empty
  std::vector<ValueId> arguments;  ///< scf.for: induction variable, then carried values
  std::vector<TtirOp> ops;
};

/// A range of TtirModule::text.
struct TtirSpan {
  size_t begin = 0, end = 0;
};

struct TtirRegion {
  std::vector<TtirBlock> blocks;
  TtirSpan span;  ///< from '{' to past '}'
};

struct TtirOp {
  std::string name;  ///< "tt.load", "arith.addf"
  std::vector<ValueId> results;
  std::vector<ValueId> operands;  ///< in the order of the text, without `initial`
  std::vector<ValueId> initial;   ///< scf.for, scf.while: what carried values start from
  std::string attributes;         ///< keywords, symbols, strings, dictionaries
  std::vector<TtirRegion> regions;
  struct Successor {
    std::string label;
    std::vector<ValueId> arguments;
  };
  std::vector<Successor> successors;  ///< of cf.br, cf.cond_br
  int line = 0;                       ///< of the TTIR text
  /// Line of the kernel's source, from the location; of an operation inside a
  /// called function the line of the call in the entry. 0 where the text has no
  /// location.
  int source_line = 0;
  TtirSpan span;  ///< from the results' names to the line's end
};

struct TtirFunction {
  std::string name;  ///< without '@'
  bool is_public = false;
  std::vector<ValueId> parameters;
  TtirRegion body;
  int line = 0;
  TtirSpan span;  ///< from "tt.func" to the body's end
};

/// A place where a value is used as an operand.
struct TtirUse {
  TtirSpan span;
  ValueId value = 0;
};

struct TtirModule {
  std::vector<TtirFunction> functions;
  std::vector<TtirValue> values;
  /// The text without locations and comments, which spans point into; its lines
  /// are those of the text that was read.
  std::string text;
  std::vector<TtirUse> uses;  ///< by position

  /// The one public function, or null when there is none or several.
  const TtirFunction* Entry() const;
  const std::string& TypeOf(ValueId value) const { return values[value].type; }
};

/// Errors: kUsage "unreadable_ttir" naming the operation and its line.
Result<TtirModule> ReadTtir(std::string_view text, std::string_view file);

/// Calls `visit` for every operation, outer before inner, in text order.
void WalkOps(const TtirRegion& region, const std::function<void(const TtirOp&)>& visit);
void WalkOps(const TtirModule& module, const std::function<void(const TtirOp&)>& visit);

/// The element type: "f32" of "tensor<64x32xf32>" and of "f32", "!tt.ptr<f32>"
/// of "tensor<8x!tt.ptr<f32>>".
std::string_view ElementType(std::string_view type);

/// The same shape with another element type: ("tensor<8xf32>", "i1") gives
/// "tensor<8xi1>".
std::string WithElementType(std::string_view type, std::string_view element);

/// What a pointer or a tensor of pointers points at, in its shape: "tensor<8xf32>"
/// of "tensor<8x!tt.ptr<f32, 1>>"; empty for other types.
std::string PointeeType(std::string_view type);

/// True for pointers and tensors of pointers.
bool IsPointerType(std::string_view type);

/// True for f16, bf16, f32, f64 and the eight-bit kinds (f8E5M2...), not tensors.
bool IsFloatType(std::string_view element_type);

}  // namespace kernelopt
