// The real things behind the interfaces: this machine's Python with torch, its
// compile workers and its judge. Nothing is started before it is used.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/judge.h"
#include "workers/compile.h"
#include "workers/model.h"

namespace kernelopt {

class Machine {
 public:
  /// `python`: --python or empty. Errors: kEnvironment "python_missing",
  /// "not_writable".
  static Result<std::unique_ptr<Machine>> Open(const std::string& python);

  const std::string& python() const { return python_; }
  const std::string& cache() const { return cache_; }
  const std::string& program() const { return program_; }
  Judge& judge() { return *judge_; }
  Compiler& compiler() { return *compiler_; }
  ModelWorker& model() { return *model_; }

 private:
  Machine() = default;

  std::string python_, cache_, program_;
  std::unique_ptr<Judge> judge_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<ModelWorker> model_;
};

}  // namespace kernelopt
