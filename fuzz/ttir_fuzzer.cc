// Any bytes: the TTIR reader and the analyses on it must return.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ttir/facts.h"
#include "ttir/promote.h"
#include "ttir/ranges.h"
#include "ttir/roles.h"
#include "ttir/ttir.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto module = kernelopt::ReadTtir({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (module) {
    (void)kernelopt::PointerUses(*module);
    (void)kernelopt::ReadFacts(*module);
    (void)kernelopt::PromoteToFloat64(*module);
    if (const auto* entry = module->Entry()) {
      const size_t count = entry->parameters.size();
      (void)kernelopt::AnalyzeRanges(
          *module, {.grid = {1000, 3, 1},
                    .scalars = std::vector<std::optional<int64_t>>(count, 100),
                    .elements = std::vector<std::optional<int64_t>>(count, 1000)});
    }
  }
  return 0;
}
