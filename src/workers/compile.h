// Compiling kernels: text + configuration -> cubin, with no GPU visible.
//
// A Compiler takes many requests and works on them in parallel; each has its
// own time limit, so that one compile bomb costs its limit and nothing else.
// Answers are cached by content (source, configuration, target, versions).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/launch_record.h"
#include "device/replacement.h"

namespace kernelopt {

struct CompileRequest {
  std::string source;  ///< a whole Inductor-style kernel source (inductor/splice.h)
  /// True: the source is TTIR (ttir/promote.h), compiled as it is. The name and
  /// the configuration's constexprs don't count, and the launch record's
  /// `argument` is the index among the parameters of the text's function.
  bool is_ttir = false;
  std::string kernel_name;  ///< the global that holds the kernel
  LaunchConfig config;
  int compute_capability = 90;
  int time_limit_ms = 60000;
  /// Binary hash of a kernel that the compiler made, to be reproduced from its
  /// own source: Inductor's workers and its parent process may use different
  /// assemblers, and the one that gives this hash is kept. Empty for our kernels.
  std::string expected_hash;
};

struct CompileOutput {
  std::string cubin_path, ttir_path, ptx_path;  ///< files of the cache
  LaunchRecord record;
  std::string binary_hash;  ///< of .text* and .nv.constant* and the launch record
  int registers = 0;        ///< a thread
  int64_t spill_bytes = 0;  ///< local memory a thread
  int64_t compile_ms = 0;   ///< 0 when it came from the cache
};

class Compiler {
 public:
  virtual ~Compiler() = default;

  /// Begins to start what CompileAll needs and returns at once; saves waiting later.
  virtual void Prepare() {}

  /// One result a request, in the same order. `done` is called after each, from
  /// this thread, with the request's index (progress). Error codes:
  /// compile_error (the kernel's own fault), timeout, died, out_of_memory,
  /// protocol_error, interrupted.
  virtual std::vector<Result<CompileOutput>> CompileAll(
      const std::vector<CompileRequest>& requests,
      const std::function<void(size_t index)>& done) = 0;

  /// "torch 2.11.0, triton 3.6.0"; part of what a result is named by.
  virtual Result<std::string> Versions() = 0;
};

}  // namespace kernelopt
