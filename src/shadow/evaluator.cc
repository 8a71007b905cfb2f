#include "shadow/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "shadow/worker.h"

namespace kernelopt {
namespace {

/// Instances below which another thread isn't worth its start.
constexpr size_t kFewInstances = 4;

Status CheckArguments(ShadowMemory& memory, const ShadowLaunch& launch) {
  const auto bad = [](std::string message) {
    return Fail(ErrorKind::kUsage, "job_error", std::move(message));
  };
  const ShadowProgram& program = *launch.program;
  if (launch.arguments.size() != program.parameters.size())
    return bad(fmt::format("{} arguments for the {} parameters of {}", launch.arguments.size(),
                           program.parameters.size(), program.name));
  for (const ShadowInstance& instance : launch.instances)
    for (size_t axis = 0; axis < 3; ++axis)
      if (instance[axis] < 0 || instance[axis] >= launch.grid[axis])
        return bad(fmt::format("instance {} of axis {} of a grid of {}", instance[axis], axis,
                               launch.grid[axis]));
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const ShadowParameter& parameter = program.parameters[i];
    if (!parameter.is_pointer) continue;
    ShadowStorage* storage = memory.Find(launch.arguments[i].address);
    if (storage == nullptr) return bad(fmt::format("argument {} is no storage", i));
    if (storage->element_bytes() == 0) storage->SetElementBytes(MemoryBytes(parameter.kind));
  }
  return {};
}

void Collect(std::vector<ShadowFinding>* all, ShadowView& view) {
  for (auto& [key, finding] : view.findings()) {
    const auto same = std::ranges::find_if(*all, [&](const ShadowFinding& other) {
      return other.kind == finding.kind && other.line == finding.line &&
             other.is_store == finding.is_store;
    });
    if (same == all->end()) {
      all->push_back(finding);
      continue;
    }
    const int64_t count = same->count + finding.count;
    // The first instance in the grid's order speaks for all.
    const auto order = [](const ShadowFinding& f) {
      return std::array<int32_t, 3>{f.instance[2], f.instance[1], f.instance[0]};
    };
    if (order(finding) < order(*same)) *same = finding;
    same->count = count;
  }
  view.findings().clear();
}

}  // namespace

std::string_view ToString(ShadowFinding::Kind kind) {
  switch (kind) {
    case ShadowFinding::Kind::kOutOfBounds:
      return "out_of_bounds";
    case ShadowFinding::Kind::kMisaligned:
      return "misaligned";
    case ShadowFinding::Kind::kUnwritten:
      return "unwritten";
    case ShadowFinding::Kind::kWriteWrite:
      return "write_write";
    case ShadowFinding::Kind::kReadWrite:
      return "read_write";
    case ShadowFinding::Kind::kLaneConflict:
      return "lane_conflict";
    case ShadowFinding::Kind::kAssertion:
      return "assertion";
    case ShadowFinding::Kind::kDeadlock:
      return "deadlock";
    case ShadowFinding::Kind::kEndless:
      return "endless";
  }
  return "";
}

std::string Describe(const ShadowFinding& f) {
  const std::string line = f.source_line > 0 ? fmt::format("line {}", f.source_line)
                                             : fmt::format("TTIR line {}", f.line);
  const std::string other = f.other_source_line > 0 ? fmt::format("line {}", f.other_source_line)
                                                    : fmt::format("TTIR line {}", f.other_line);
  const std::string who =
      fmt::format("instance ({}, {}, {})", f.instance[0], f.instance[1], f.instance[2]);
  const std::string what =
      fmt::format("the {} in {}, {}, lane {}", f.is_store ? "store" : "load", line, who, f.lane);
  switch (f.kind) {
    case ShadowFinding::Kind::kOutOfBounds:
      if (f.storage < 0) return what + ", leads to no storage";
      return f.amount < 0 ? fmt::format("{}, goes {} bytes before the start of storage {}", what,
                                        -f.amount, f.storage)
                          : fmt::format("{}, goes {} bytes past the end of storage {}", what,
                                        f.amount, f.storage);
    case ShadowFinding::Kind::kMisaligned:
      return fmt::format("{}, is not aligned to its element", what);
    case ShadowFinding::Kind::kUnwritten:
      return fmt::format("{}, reads element {} of storage {}, which nobody has written", what,
                         f.index, f.storage);
    case ShadowFinding::Kind::kWriteWrite:
      return fmt::format(
          "{}, writes element {} of storage {}, which another instance writes with another value",
          what, f.index, f.storage);
    case ShadowFinding::Kind::kReadWrite:
      return fmt::format("{}, meets element {} of storage {}, which another instance {} in {}",
                         what, f.index, f.storage, f.is_store ? "reads" : "writes", other);
    case ShadowFinding::Kind::kLaneConflict:
      return fmt::format(
          "{}, meets element {} of storage {}, which another lane uses in {} with no barrier "
          "between",
          what, f.index, f.storage, other);
    case ShadowFinding::Kind::kAssertion:
      return fmt::format("the assertion {} in {} fails in {}, lane {}", f.text, line, who, f.lane);
    case ShadowFinding::Kind::kDeadlock:
      return fmt::format("{} instances wait for each other in {}", f.count, line);
    case ShadowFinding::Kind::kEndless:
      return fmt::format("the loop in {} does not end in {}", line, who);
  }
  return what;
}

std::vector<ShadowInstance> AllInstances(const std::array<int64_t, 3>& grid) {
  std::vector<ShadowInstance> all;
  for (int64_t z = 0; z < grid[2]; ++z)
    for (int64_t y = 0; y < grid[1]; ++y)
      for (int64_t x = 0; x < grid[0]; ++x)
        all.push_back({static_cast<int32_t>(x), static_cast<int32_t>(y), static_cast<int32_t>(z)});
  return all;
}

std::vector<ShadowInstance> SampleInstances(const std::array<int64_t, 3>& grid, int64_t most,
                                            uint64_t seed) {
  const auto product = static_cast<__int128>(grid[0]) * grid[1] * grid[2];
  if (product <= most) return AllInstances(grid);
  const int64_t count = static_cast<int64_t>(std::min<__int128>(product, INT64_MAX));
  std::set<int64_t> chosen;
  const auto add = [&](int64_t x, int64_t y, int64_t z) {
    const int64_t number = x + grid[0] * (y + grid[1] * z);
    if (static_cast<int64_t>(chosen.size()) < most) chosen.insert(number);
  };
  add(0, 0, 0);
  add(grid[0] - 1, grid[1] - 1, grid[2] - 1);
  // The ragged end of one axis at a time, then its neighbours.
  for (size_t axis = 0; axis < 3; ++axis) {
    for (const bool last : {true, false}) {
      std::array<int64_t, 3> at =
          last ? std::array<int64_t, 3>{0, 0, 0}
               : std::array<int64_t, 3>{grid[0] - 1, grid[1] - 1, grid[2] - 1};
      at[axis] = last ? grid[axis] - 1 : 0;
      add(at[0], at[1], at[2]);
    }
  }
  add(std::min<int64_t>(1, grid[0] - 1), 0, 0);
  add(std::max<int64_t>(grid[0] - 2, 0), grid[1] - 1, grid[2] - 1);
  for (uint64_t draw = 0; static_cast<int64_t>(chosen.size()) < most; ++draw)
    chosen.insert(static_cast<int64_t>(KoptHash(seed, draw, 0) % static_cast<uint64_t>(count)));
  std::vector<ShadowInstance> all;
  for (int64_t number : chosen)
    all.push_back({static_cast<int32_t>(number % grid[0]),
                   static_cast<int32_t>(number / grid[0] % grid[1]),
                   static_cast<int32_t>(number / grid[0] / grid[1])});
  return all;
}

Result<ShadowReport> RunShadow(ShadowMemory& memory, const ShadowLaunch& launch) {
  KOPT_CHECK_OK(CheckArguments(memory, launch));
  const ShadowProgram& program = *launch.program;
  const size_t instances = launch.instances.size();
  size_t threads = launch.threads > 0 ? static_cast<size_t>(launch.threads)
                                      : std::max(1u, std::thread::hardware_concurrency());
  threads = std::clamp<size_t>(instances / kFewInstances, 1, threads);
  if (program.may_wait) threads = 1;
  std::vector<std::unique_ptr<ShadowWorker>> workers;
  for (size_t t = 0; t < threads; ++t)
    workers.push_back(std::make_unique<ShadowWorker>(memory, launch));
  if (program.may_wait) {
    KOPT_CHECK_OK(workers[0]->RunInTurns());
  } else {
    std::vector<std::jthread> running;
    for (size_t t = 1; t < threads; ++t)
      running.emplace_back([&, t] {
        workers[t]->Run(static_cast<uint32_t>(instances * t / threads),
                        static_cast<uint32_t>(instances * (t + 1) / threads));
      });
    workers[0]->Run(0, static_cast<uint32_t>(instances / threads));
  }
  ShadowReport report;
  for (const auto& worker : workers)
    if (const std::string& error = worker->view().error(); !error.empty())
      return Fail(ErrorKind::kUsage, "not_evaluable", error);
  for (const auto& worker : workers)
    for (const auto& other : workers)
      if (worker != other) worker->view().Check(other->view());
  std::vector<uint8_t> branches(program.code.size());
  for (const auto& worker : workers) {
    Collect(&report.findings, worker->view());
    worker->view().Commit();
    report.work += worker->work();
    report.instances += worker->finished();
    for (size_t i = 0; i < branches.size(); ++i) branches[i] |= worker->branches()[i];
  }
  std::ranges::sort(report.findings, {}, [](const ShadowFinding& f) {
    return std::pair(f.line, static_cast<int>(f.kind));
  });
  const double grid = static_cast<double>(launch.grid[0]) * static_cast<double>(launch.grid[1]) *
                      static_cast<double>(launch.grid[2]);
  report.share = grid > 0 ? static_cast<double>(report.instances) / grid : 1;
  for (size_t i = 0; i < branches.size(); ++i) {
    const ShadowInstruction& each = program.code[i];
    const bool is_loop = each.op == ShadowOp::kLoopTest;
    if ((each.op == ShadowOp::kJumpUnless && (branches[i] == 1 || branches[i] == 2)) ||
        (is_loop && branches[i] == 2))
      report.never_taken.push_back(each.line);
  }
  return report;
}

}  // namespace kernelopt
