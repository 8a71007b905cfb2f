// For this folder's tests: a worker in Python whose handlers the test writes, on
// the package's own framing, so that no torch is needed.
#pragma once

#include <string>
#include <vector>

namespace kernelopt {

/// The argv of a worker; `body` defines functions, `handlers` names them, `hello`
/// is a Python dict.
inline std::vector<std::string> ScriptedWorker(const std::string& body, const std::string& handlers,
                                               const std::string& hello) {
  return {"python3", "-S", "-c",
          "import json, os, sys, time, signal, hashlib, pathlib\n"
          "sys.path.insert(0, '" KERNELOPT_SOURCE_DIR
          "/python')\n"
          "from kernelopt import framing\n"
          "framing.take_streams()\n" +
              body + "\nsys.exit(framing.serve({f.__name__: f for f in (" + handlers +
              ",)}, hello=lambda params: " + hello + "))\n"};
}

}  // namespace kernelopt
