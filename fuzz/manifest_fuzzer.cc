// Any bytes: a pack's manifest and its kernel files must be read or refused,
// and no name of a file may lead out of the pack.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pack/kernel_file.h"
#include "pack/pack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto pack = kernelopt::ParseManifest(text, "fuzz")) {
    for (const auto& [name, hash] : pack->files) {
      if (name.empty() || name.front() == '/' || name.find("..") == 0 ||
          name.find("/..") != std::string::npos) {
        std::abort();
      }
    }
  }
  if (!text.ends_with(kernelopt::KernelTextOf(text))) std::abort();
  return 0;
}
