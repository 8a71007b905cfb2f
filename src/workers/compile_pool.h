// The Compiler on child processes: `python -m kernelopt.compile_worker`.
//
//   CompilePool pool({.python = ".venv/bin/python", .cache_folder = cache + "/compile"});
//   auto outputs = pool.CompileAll(requests, {});
//
// Workers are started as jobs need them (Prepare: all at once), see no GPU, and have a limit of
// memory. A job that breaks a limit or ends its worker costs that worker alone; the next job gets a
// new one. Requests with equal content are compiled once, and results and compile errors are kept
// in the cache folder, which processes may share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workers/compile.h"

namespace kernelopt {

struct CompilePoolOptions {
  std::string python = "python3";
  std::string python_path;   ///< folder that holds the package `kernelopt`; empty = installed
  std::string cache_folder;  ///< created when missing
  int workers = 0;           ///< at most so many at once; 0 = one a core, at most 32
  int64_t data_bytes = int64_t{8} << 30;  ///< private memory of one worker
  int64_t start_limit_ms = 120000;
  /// What is run as a worker; empty = {python, "-m", "kernelopt.compile_worker"}.
  std::vector<std::string> command;
};

class CompilePool : public Compiler {
 public:
  explicit CompilePool(CompilePoolOptions options);
  ~CompilePool() override;

  void Prepare() override;

  /// Error codes beside those of Compiler::CompileAll: the kEnvironment errors of
  /// a worker that can't start ("no_such_program", "torch_missing", ...), and
  /// "not_writable" and "disk_full" of the cache folder.
  std::vector<Result<CompileOutput>> CompileAll(
      const std::vector<CompileRequest>& requests,
      const std::function<void(size_t index)>& done) override;

  Result<std::string> Versions() override;

  int starts() const;  ///< workers that were started so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kernelopt
