// Where things are: this program, its Python package, the user's Python, the
// user's cache folder.
#pragma once

#include <string>

#include "base/result.h"

namespace kernelopt {

/// The path of this program (links resolved).
std::string ProgramPath();

/// $XDG_CACHE_HOME/kernelopt or ~/.cache/kernelopt; created when missing.
/// Errors: kEnvironment "not_writable", "disk_full".
Result<std::string> CacheFolder();

/// The Python that has torch: `given` (--python), else $KERNELOPT_PYTHON, else
/// $VIRTUAL_ENV/bin/python3, else python3 on PATH. Error: kEnvironment "python_missing".
Result<std::string> FindPython(const std::string& given);

/// The folder to put first on PYTHONPATH, so that `import kernelopt` finds the
/// package that belongs to this program: beside the binary when installed by
/// the wheel (kernelopt/bin/kernelopt), else python/ of the source tree, else
/// empty: it is installed in that Python.
///
/// A wheel's package lies in a site-packages folder, which must not be put in
/// front of another Python's own (its torch would be taken); so it is reached
/// through a folder of the cache that holds a link to the package alone.
Result<std::string> PackageFolder(const std::string& program, const std::string& cache);

}  // namespace kernelopt
