// Places at which a test build can end its process as `kill -9` would: before
// and after every write that others depend on.
//
//   FailPoint("file.rename");   // this passage may be the last
//
// With KERNELOPT_FAILPOINT=NAME:N in the environment the N-th passage of NAME,
// counted from 1 in each process, sends SIGKILL to it; any other value of the
// variable ends the process with exit code 2 at its first passage. Thread-safe.
// Only builds with tests have them (KERNELOPT_FAIL_POINTS); in others a passage
// is nothing. tests/robust kills a whole run at each of them.
#pragma once

#include <string_view>

#ifdef KERNELOPT_FAIL_POINTS
#include <map>
#include <string>
#endif

namespace kernelopt {

#ifdef KERNELOPT_FAIL_POINTS
void FailPoint(std::string_view name);

/// As the variable would, with passages counted from now on; for forked children of tests.
void SetFailPoint(const std::string& name, int passage);

/// How often each was passed in this process.
std::map<std::string, int> FailPointPassages();
#else
inline void FailPoint(std::string_view) {}
#endif

}  // namespace kernelopt
