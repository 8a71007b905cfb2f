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
#include "base/json_value.h"
#include "base/result.h"
#include "base/span.h"

namespace kernelopt {

struct KernelArgument {
  std::string name;
  std::string annotation;   ///< "tl.constexpr" or empty
  std::string triton_type;  ///< "*fp32", "i32", "constexpr" from the signature
};

/// One `NAME = async_compile.triton('ENTRY', ...)` definition. A source that
/// can't be read as a kernel has a `problem` and nothing below it.
///
/// Metadata is Json (literal.h): tuples and sets as arrays; names and calls
/// such as DeviceProperties(...) as their text.
struct Kernel {
  std::string name;            ///< the variable that launches name
  std::string entry;           ///< the def in `text`; the same but for options of Inductor
  Span assignment;             ///< the whole statement in the module
  Span source;                 ///< the source text inside the quotes, in the module
  std::string text;            ///< the source, unescaped
  std::string decorator;       ///< pointwise | reduction | persistent_reduction | ...
  JsonValue size_hints;        ///< {"x": 4096, "r0_": 32}
  std::string reduction_hint;  ///< "INNER" or empty
  std::string tile_hint;       ///< "SQUARE" or empty
  std::vector<KernelArgument> arguments;  ///< in the order of the def
  JsonValue triton_meta;                  ///< the decorator's triton_meta
  JsonValue inductor_meta;                ///< the decorator's inductor_meta
  std::vector<std::string> mutated;       ///< mutated_arg_names
  std::string grid_type;                  ///< "Grid1D"
  Span function;           ///< in `text`: from the entry's first decorator to its end
  std::string key;         ///< canonical key, SHA-256 (canonical.h)
  std::string user_path;   ///< non-empty: written by the user, left alone
  std::string device_str;  ///< "cuda", from the definition; empty for a source alone
  std::string problem;     ///< non-empty: one sentence why the source isn't read as a kernel

  const KernelArgument* FindArgument(std::string_view name) const;
};

/// One `NAME.run(...)` of a kernel or of another async_compile object.
struct Launch {
  std::string kernel;                  ///< NAME
  std::string function;                ///< enclosing function, "call" or "partition_0"
  Span span;                           ///< the call expression
  std::vector<std::string> arguments;  ///< text of each positional argument
  std::string stream;                  ///< text of the stream= argument
};

/// A call of a library in any function but the module's tail: extern_kernels.*,
/// torch.ops.* also through aliases (aten.*), and C++ kernels called by name.
struct ExternCall {
  std::string target;  ///< "extern_kernels.mm"
  std::string function;
  Span span;
  std::vector<std::string> arguments;  ///< text, keywords as "out=buf0"
};

struct Module {
  std::string text;
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<ExternCall> externs;
  /// Kernels named anywhere but in their definition and their launches, for
  /// instance in async_compile.multi_kernel(...).
  std::vector<std::string> used_elsewhere;
  std::string key;    ///< canonical hash of the whole module
  std::string phase;  ///< inference | forward | backward, from the AOT ID, or ""

  const Kernel* FindKernel(std::string_view name) const;
};

/// Errors: kUsage "syntax_error" with file:line:column, and what Tree::Parse
/// says. A module without Triton kernels is fine.
Result<Module> ReadModule(std::string text, const std::string& file);

/// One kernel's source alone (the text inside the quotes), as a Kernel with
/// empty module spans. Errors: kUsage "syntax_error", "not_a_kernel".
Result<Kernel> ReadKernelSource(std::string text, const std::string& file);

/// {"kernels": [...], "launches": [...], "externs": [...], "key": ...}
Json ToJson(const Module& module);

}  // namespace kernelopt
