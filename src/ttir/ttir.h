// Reading Triton's TTIR: the text that a compile worker leaves beside a cubin.
//
//   TtirModule module = KOPT_TRY(ReadTtir(text, "kernel.ttir"));
//   for (const TtirFunction& f : module.functions) ...
//   WalkOps(module, [](const TtirOp& op) { ... });
//
// The reader takes MLIR's printed form, custom and generic, as triton 3.5 to
// 3.8 write it, with or without locations. It knows the shape that all
// operations share and the few that bind names of their own (scf.for,
// scf.while, regions); what an operation means is left to the analyses
// (facts.h, roles.h). Text that it can't read is an error, never skipped.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kernelopt {

struct TtirOp;

/// A named value: a function parameter or a block argument.
struct TtirBinding {
  std::string name;  ///< "%arg0"
  std::string type;  ///< "!tt.ptr<f32>"
  std::string attributes;  ///< "tt.divisibility = 16 : i32", without braces
};

struct TtirBlock {
  std::string label;  ///< "^bb0" or empty
  std::vector<TtirBinding> arguments;
  std::vector<TtirOp> ops;
};

struct TtirRegion {
  std::vector<TtirBlock> blocks;
};

struct TtirOp {
  std::string name;                    ///< "tt.load", "arith.addf"
  std::vector<std::string> results;    ///< "%3"; of "%3:2" these are "%3#0", "%3#1"
  std::vector<std::string> operands;   ///< values read, in the order of the text
  std::vector<std::string> result_types;
  std::vector<std::string> operand_types;  ///< as far as the text gives them
  std::string attributes;  ///< everything else on the op: keywords, dictionaries, symbols
  std::vector<TtirRegion> regions;
  /// scf.for, scf.while: names bound to the loop's carried values, and the
  /// values they start from. Empty elsewhere.
  std::vector<std::string> carried, initial;
  std::string induction;  ///< scf.for: the loop variable
  /// cf.br, cf.cond_br: one target a successor.
  struct Successor {
    std::string label;
    std::vector<std::string> arguments;
  };
  std::vector<Successor> successors;
  int line = 0;
};

struct TtirFunction {
  std::string name;  ///< without '@'
  bool is_public = false;
  std::vector<TtirBinding> parameters;
  std::vector<std::string> result_types;
  TtirRegion body;
  int line = 0;
};

struct TtirModule {
  std::vector<TtirFunction> functions;

  /// The one public function, or null when there is none or several.
  const TtirFunction* Entry() const;
};

/// Errors: kUsage "unreadable_ttir" naming the operation and its line.
Result<TtirModule> ReadTtir(std::string_view text, std::string_view file);

/// Calls `visit` for every operation, outer before inner, in text order.
void WalkOps(const TtirModule& module, const std::function<void(const TtirOp&)>& visit);
void WalkOps(const TtirRegion& region, const std::function<void(const TtirOp&)>& visit);

/// The element type of "tensor<64x32xf32>", "tensor<8x!tt.ptr<f32>>" ("!tt.ptr<f32>"),
/// "f32" or "tensor<4xf16, #layout>".
std::string_view ElementType(std::string_view type);

/// Number of elements: 2048 for "tensor<64x32xf32>", 1 for a scalar.
int64_t ElementCount(std::string_view type);

}  // namespace kernelopt
