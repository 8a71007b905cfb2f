// Reading a module that torch.compile's Inductor generated.
//
//   auto module = KOPT_TRY(ReadModule(text, "module.py"));
//   for (const Kernel& kernel : module.kernels) ...
//
// The reader finds kernels by syntax, never by position or regular
// expression: `NAME = async_compile.triton('NAME', '''SOURCE''', ...)`,
// launches `NAME.run(...)` and extern calls in every function of the module.
// Everything it does not name stays as it is; spans are byte offsets into the
// text, so that untouched parts re-assemble byte for byte.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kernelopt {

/// Byte offsets, end exclusive.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Span&) const = default;
};

/// A Python literal as Inductor writes metadata: dict, list, tuple, set(),
/// int, float, str, bool, None; calls (DeviceProperties(...),
/// ReductionHint.INNER) are kept as text. `Json` with tuples as arrays.
struct KernelArgument {
  std::string name;
  std::string annotation;     ///< "tl.constexpr" or empty
  std::string triton_type;    ///< "*fp32", "i32", "constexpr" from the signature
};

/// One `async_compile.triton(...)` definition.
struct Kernel {
  std::string name;
  Span assignment;   ///< the whole statement in the module
  Span source;       ///< the source text inside the quotes, in the module
  std::string text;  ///< the source, unescaped
  std::string decorator;  ///< pointwise | reduction | persistent_reduction | ...
  Json size_hints;        ///< {"x": 4096, "r0_": 32}
  std::string reduction_hint;  ///< "INNER" or empty
  std::string tile_hint;       ///< "SQUARE" or empty
  std::vector<KernelArgument> arguments;  ///< in the order of the def
  Json triton_meta;     ///< the decorator's triton_meta
  Json inductor_meta;   ///< the decorator's inductor_meta
  std::vector<std::string> mutated;  ///< mutated_arg_names
  std::string grid_type;             ///< "Grid1D"
  Span function;    ///< in `text`: from the entry's first decorator to its end
  std::string key;  ///< canonical key, SHA-256 (canonical.h)
  std::string user_path;  ///< non-empty: written by the user, left alone
};

/// One `NAME.run(...)`.
struct Launch {
  std::string kernel;
  std::string function;  ///< enclosing function, "call" or "partition_0"
  Span span;             ///< the call expression
  std::vector<std::string> arguments;  ///< text of each positional argument
  std::string stream;                  ///< text of the stream= argument
};

/// A call of a library: extern_kernels.*, torch.ops.* in a call function.
struct ExternCall {
  std::string target;  ///< "extern_kernels.mm"
  std::string function;
  Span span;
  std::vector<std::string> arguments;
};

struct Module {
  std::string text;
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<ExternCall> externs;
  std::string key;  ///< canonical hash of the whole module
  std::string phase;  ///< inference | forward | backward, from the AOT ID, or ""

  const Kernel* FindKernel(std::string_view name) const;
};

/// Errors: kUsage "syntax_error" with file:line:column.
Result<Module> ReadModule(std::string text, const std::string& file);

/// One kernel's source alone (the text inside the quotes), as a Kernel with
/// empty module spans. Errors: kUsage "syntax_error", "not_a_kernel".
Result<Kernel> ReadKernelSource(std::string text, const std::string& file);

/// {"kernels": [...], "launches": [...], "externs": [...], "key": ...}
Json ToJson(const Module& module);

}  // namespace kernelopt
