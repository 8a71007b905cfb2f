#include "judge/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kernelopt::cuda {
namespace {

Result<Driver> Open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Fail(
        ErrorKind::kEnvironment, "no_gpu",
        "the NVIDIA driver's libcuda.so.1 can't be opened; a GPU and its driver are needed");
  }
  Driver driver;
  const char* missing = nullptr;
#define KERNELOPT_CUDA_LOAD(name, symbol, ...)                                   \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, symbol)); \
  if (driver.name == nullptr && missing == nullptr) missing = symbol;
  KERNELOPT_CUDA_FUNCTIONS(KERNELOPT_CUDA_LOAD)
#undef KERNELOPT_CUDA_LOAD
  if (missing != nullptr) {
    return Fail(ErrorKind::kEnvironment, "no_gpu",
                fmt::format("the NVIDIA driver has no {}; a driver for CUDA 12 or newer is needed",
                            missing));
  }
  return driver;
}

}  // namespace

Result<const Driver*> LoadDriver() {
  static const Result<Driver> driver = Open();
  if (!driver) return std::unexpected(driver.error());
  return &*driver;
}

std::string Describe(const Driver& driver, Code code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.GetErrorName(code, &name) != kSuccess || name == nullptr) name = "unknown";
  if (driver.GetErrorString(code, &text) != kSuccess || text == nullptr) text = "no description";
  return fmt::format("{}: {}", name, text);
}

bool IsSick(Code code) {
  // Context destroyed, ECC error, illegal address, launch timeout, assert,
  // hardware stack error, illegal instruction, misaligned address, invalid
  // address space, invalid program counter, launch failed, unknown.
  constexpr std::array kSick = {214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999};
  return std::find(kSick.begin(), kSick.end(), code) != kSick.end();
}

}  // namespace kernelopt::cuda
