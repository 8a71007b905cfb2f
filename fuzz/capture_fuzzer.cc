// Any bytes as capture.json: reading a capture must return.
//
// A capture names modules by hash, and nothing after them is read while one is
// missing, so the folder holds an empty module, whose hash the seed names.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/hash.h"
#include "program/program.h"

namespace {

std::string MakeFolder() {
  std::string folder = "/tmp/capture_fuzzer_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  const std::string module = folder + "/modules/" + kernelopt::Sha256Hex("") + ".py";
  if (!kernelopt::MakeFolder(folder + "/modules") || !kernelopt::WriteFileAtomic(module, "")) {
    std::abort();
  }
  return folder;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string folder = MakeFolder();
  (void)kernelopt::ParseCapture({reinterpret_cast<const char*>(data), size}, folder);
  return 0;
}
