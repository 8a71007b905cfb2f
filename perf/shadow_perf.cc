// Speed of the shadow device on one core: lanes computed a second (items_per_second).
//
//   shadow_perf [--benchmark_filter=...]
#include <benchmark/benchmark.h>

#include "base/file.h"
#include "device/data.h"
#include "shadow/evaluator.h"
#include "ttir/roles.h"

namespace kernelopt {
namespace {

/// Runs a text over storages of `elements` floats; scalars are `elements`.
void Evaluate(benchmark::State& state, const std::string& file, int64_t elements, int64_t grid) {
  const std::string path = KERNELOPT_SOURCE_DIR "/perf/" + file;
  auto text = ReadFile(path);
  auto module = text ? ReadTtir(*text, path) : Result<TtirModule>(std::unexpected(text.error()));
  auto program = module ? CompileShadowProgram(*module)
                        : Result<ShadowProgram>(std::unexpected(module.error()));
  if (!program) return state.SkipWithError(program.error().ToString().c_str());
  std::vector<bool> written;
  if (auto uses = PointerUses(*module))
    for (const PointerUse& use : *uses) written.push_back(use.stores > 0);
  int64_t work = 0;
  for (auto _ : state) {
    ShadowMemory memory;
    ShadowLaunch launch;
    launch.program = &*program;
    launch.threads = 1;
    launch.written = written;
    launch.grid = {grid, 1, 1};
    launch.instances = AllInstances(launch.grid);
    for (size_t i = 0; i < program->parameters.size(); ++i) {
      ShadowArgument& argument = launch.arguments.emplace_back();
      argument.int_value = elements;
      if (!program->parameters[i].is_pointer) continue;
      StorageSpec spec;
      spec.bytes = 4 * elements;
      argument.address = memory.Allocate(spec.bytes);
      memory.At(argument.address)
          .SetContent(ShadowContent::Draw(*MakeDraw(spec, static_cast<int>(i), DataSet{})));
    }
    auto report = RunShadow(memory, launch);
    if (!report || !report->findings.empty())
      return state.SkipWithError(report ? Describe(report->findings[0]).c_str()
                                        : report.error().ToString().c_str());
    work += report->work;
  }
  state.SetItemsProcessed(work);
}

void Pointwise(benchmark::State& state) {
  Evaluate(state, "pointwise.ttir", 1 << 20, 1024);
}
void LongPointwise(benchmark::State& state) {
  Evaluate(state, "gelu.ttir", 1 << 20, 1024);
}
void Softmax(benchmark::State& state) {
  Evaluate(state, "softmax.ttir", 1 << 20, 512);
}
void Sum(benchmark::State& state) {
  Evaluate(state, "sum.ttir", 1 << 20, 64);
}
void Welford(benchmark::State& state) {
  Evaluate(state, "welford.ttir", 1 << 20, 64);
}

BENCHMARK(Pointwise)->Unit(benchmark::kMillisecond);
BENCHMARK(LongPointwise)->Unit(benchmark::kMillisecond);
BENCHMARK(Softmax)->Unit(benchmark::kMillisecond);
BENCHMARK(Sum)->Unit(benchmark::kMillisecond);
BENCHMARK(Welford)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kernelopt

BENCHMARK_MAIN();
