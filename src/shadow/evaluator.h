// Runs a kernel's program instances on the CPU and watches what they do.
//
//   ShadowLaunch launch{.program = &program, .grid = {64, 1, 1}, .arguments = {...}};
//   launch.instances = SampleInstances(launch.grid, 16, seed);      // or AllInstances
//   ShadowReport report = KOPT_TRY(RunShadow(memory, launch));
//   for (const ShadowFinding& finding : report.findings) ...
//
// Instances run side by side on several threads, each thread with pages of its own
// that are joined at the end; a program whose instances may wait for each other runs on
// one thread, in turns. What is found while it runs is a finding, and the launch goes
// on: a load that is not allowed gives zeros, a store that is not allowed is left out.
//
// Conflicts are told where the outcome can depend on the order: an element that two
// instances write with different values; that one reads and another changes; that one
// lane stores and another lane of the instance loads, changes or read before, with no
// barrier between. Lanes are the places in the access's tensor. Between instances of a
// program with atomics conflicts are not looked for: an atomic may order them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "shadow/memory.h"
#include "shadow/program.h"

namespace kernelopt {

struct ShadowArgument {
  uint64_t address = 0;
  int64_t int_value = 0;
  double float_value = 0;
};

using ShadowInstance = std::array<int32_t, 3>;

/// Every instance of the grid, x fastest.
std::vector<ShadowInstance> AllInstances(const std::array<int64_t, 3>& grid);
/// At most `most` of them, ordered: the first, the last, the edges of each axis, others
/// at random by the seed. All where they are no more.
std::vector<ShadowInstance> SampleInstances(const std::array<int64_t, 3>& grid, int64_t most,
                                            uint64_t seed);

struct ShadowLaunch {
  const ShadowProgram* program = nullptr;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::vector<ShadowArgument> arguments;  ///< one a parameter
  std::vector<ShadowInstance> instances;
  int threads = 0;  ///< 0: as many as the machine has
  /// Storages (by the parameter that leads there) that the program may write; reads of
  /// others need no record. Empty: any.
  std::vector<bool> written;
  /// Operations on lanes, over all instances, after which it is given up.
  int64_t most_work = int64_t{1} << 46;
};

struct ShadowFinding {
  enum class Kind {
    kOutOfBounds,
    kMisaligned,
    kUnwritten,     ///< memory that nobody has written is read
    kWriteWrite,    ///< two instances
    kReadWrite,     ///< two instances
    kLaneConflict,  ///< two lanes of one instance
    kAssertion,
    kDeadlock,
    kEndless,  ///< `most_work` was used up
  };
  Kind kind = Kind::kOutOfBounds;
  int line = 0, source_line = 0;  ///< of the operation
  int other_line = 0;             ///< of the other access of a conflict; 0 = the same or none
  int other_source_line = 0;
  ShadowInstance instance{};
  int64_t lane = 0;
  int storage = -1;    ///< number in the memory
  int64_t index = 0;   ///< element
  int64_t amount = 0;  ///< kOutOfBounds: bytes past the end, or before the start if negative
  bool is_store = false;
  std::string text;   ///< of an assertion
  int64_t count = 1;  ///< lanes with a finding of this kind at this operation
};

std::string_view ToString(ShadowFinding::Kind kind);
/// One sentence.
std::string Describe(const ShadowFinding& finding);

struct ShadowReport {
  std::vector<ShadowFinding> findings;  ///< one for each kind and operation, by line
  int64_t instances = 0;                ///< that ran
  double share = 1;                     ///< of the grid
  /// Lanes that operations computed, loaded or stored; copies and constants don't count.
  int64_t work = 0;
  /// Lines of branches that were reached and never taken (scf.if, cf.cond_br, loops).
  std::vector<int> never_taken;
};

/// Errors: kUsage "job_error" (arguments that are not the program's), "not_evaluable"
/// (a storage is accessed as elements of two sizes), kEnvironment "out_of_memory".
Result<ShadowReport> RunShadow(ShadowMemory& memory, const ShadowLaunch& launch);

}  // namespace kernelopt
