// Any bytes: the TTIR reader and the analyses on it must return.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ttir/facts.h"
#include "ttir/roles.h"
#include "ttir/ttir.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto module = kernelopt::ReadTtir({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (module) {
    (void)kernelopt::PointerUses(*module);
    (void)kernelopt::ReadFacts(*module);
  }
  return 0;
}
