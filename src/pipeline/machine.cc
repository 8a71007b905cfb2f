#include "pipeline/machine.h"

#include "judge/client.h"
#include "pipeline/locate.h"
#include "workers/compile_pool.h"
#include "workers/model_client.h"

namespace kernelopt {

Result<std::unique_ptr<Machine>> Machine::Open(const std::string& python) {
  std::unique_ptr<Machine> machine(new Machine());
  machine->python_ = KOPT_TRY(FindPython(python));
  machine->cache_ = KOPT_TRY(CacheFolder());
  machine->program_ = ProgramPath();
  std::string package = KOPT_TRY(PackageFolder(machine->program_, machine->cache_));

  JudgeClientOptions judge;
  judge.command = {machine->program_, "judge"};
  machine->judge_ = std::make_unique<JudgeClient>(std::move(judge));
  CompilePoolOptions compiler;
  compiler.python = machine->python_;
  compiler.python_path = package;
  compiler.cache_folder = machine->cache_ + "/compile";
  machine->compiler_ = std::make_unique<CompilePool>(std::move(compiler));
  ModelWorkerOptions model;
  model.python = machine->python_;
  model.python_path = package;
  model.program = machine->program_;
  machine->model_ = std::make_unique<ProcessModelWorker>(std::move(model));
  return machine;
}

}  // namespace kernelopt
