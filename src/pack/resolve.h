// A pack against generated modules: what the loader swaps in one module, and
// what is left of a pack after a fresh capture.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "inductor/module.h"
#include "pack/pack.h"
#include "program/program.h"

namespace kernelopt {

/// The answer of `kernelopt resolve PACK MODULE.py --json` (docs/protocol.md):
/// for each kernel of the module the source to compile in its place, or null
/// and a reason: kernel_not_replaced | ambiguous | user_written |
/// entry_mismatch | not_drop_in. A module whose key the pack doesn't hold, or
/// which can't be read, swaps nothing and says so; that is no error.
Json ResolveModule(const Pack& pack, std::string module_text);

enum class KernelState {
  kValid,          ///< key and module are there, and our binary is the one that was proven
  kBinaryChanged,  ///< another triton or ptxas makes another binary of the same text
  kKeyGone,        ///< the compiler no longer makes this kernel in this module
};
std::string_view ToString(KernelState state);  ///< "valid", "binary changed", "key gone"

struct KernelComparison {
  std::string id, name, kernel_key;
  KernelState state = KernelState::kValid;
  std::string message;  ///< one sentence
};

/// Compiles a whole kernel source (global `name`) as the user's process would;
/// gives the binary hash.
using HashOfSource = std::function<Result<std::string>(
    const std::string& source, const std::string& name, const LaunchConfig& config)>;

/// `kernelopt verify`: each kernel of the pack against a fresh capture of the
/// model, in the pack's order. An error of `compile` that is the kernel's own
/// fault ("compile_error") is "binary changed"; any other is returned.
Result<std::vector<KernelComparison>> ComparePack(const Pack& pack, const Capture& fresh,
                                                  const HashOfSource& compile);

}  // namespace kernelopt
