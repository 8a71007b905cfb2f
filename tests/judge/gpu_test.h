// Parts of judge_gpu_test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/judge.h"

namespace kernelopt {

/// Counts and prints checks: "ok   name  detail".
class Table {
 public:
  void Row(bool ok, const std::string& name, const std::string& detail);
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

/// Programs and sites of test_kernels.cl, whose PTX is FOLDER/test.ptx, and of
/// FOLDER/shared.ptx.
class Kernels {
 public:
  explicit Kernels(std::string folder) : folder_(std::move(folder)) {}

  /// Pointers first, then scalars of `scalar_sizes` bytes ('f' for a float).
  Program Make(const std::string& entry, int pointers, const std::string& scalars,
               int64_t blocks) const;
  /// out = a + b over n floats of storages of `size` floats.
  Site AddSite(int64_t n, int64_t size) const;
  Program Add(const std::string& entry, int64_t n) const;
  /// "add" through 128 KiB of dynamic shared memory.
  Program AddShared(int64_t n) const;

 private:
  std::string folder_;
};

ArgumentSpec StorageArgument(int storage);
ArgumentSpec IntArgument(int64_t value);
StorageSpec FloatStorage(int64_t count, bool output);

/// Verdicts of good and faulty kernels, respawns, guard pages.
void RunCheckCases(Judge& judge, const Kernels& kernels, Table& table);

}  // namespace kernelopt
