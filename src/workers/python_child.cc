#include "workers/python_child.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace kernelopt {
namespace {

std::unexpected<Error> TorchMissing(const std::string& python, std::string_view found) {
  return Fail(ErrorKind::kEnvironment, "torch_missing",
              fmt::format("{}, but torch {}.{} or later with triton is needed; install them there "
                          "or name another Python with --python",
                          found, kMinTorchMajor, kMinTorchMinor),
              python);
}

}  // namespace

Command PythonCommand(const std::string& python, const std::string& module,
                      const std::string& python_path) {
  Command command;
  command.argv = {python, "-m", module};
  command.environment = {{"KERNELOPT_PACK", std::nullopt}, {"KERNELOPT_DISABLE", std::nullopt}};
  if (!python_path.empty()) {
    const char* old = std::getenv("PYTHONPATH");
    command.environment.emplace_back("PYTHONPATH", old == nullptr || *old == '\0'
                                                       ? python_path
                                                       : fmt::format("{}:{}", python_path, old));
  }
  return command;
}

Result<Json> CheckHello(Result<Json> hello, const std::string& python) {
  if (!hello) {
    const Error& error = hello.error();
    if (error.code == "no_such_program" || error.code == "not_startable") {
      return TorchMissing(python, error.message.substr(0, error.message.find(';')));
    }
    // A Python that ends before hello lacks the package or is none.
    if (error.code == "died") return TorchMissing(python, error.message);
    if (error.code == "protocol_error" || error.code == "timeout") {
      return Fail(ErrorKind::kEnvironment, "python_unusable",
                  fmt::format("{}; something else than a Python was named, or it prints or waits "
                              "when it starts: name another one with --python",
                              error.message),
                  python);
    }
    return hello;
  }
  for (const char* name : {"torch", "triton"}) {
    auto version = hello->find(name);
    if (version == hello->end() || !version->is_string()) {
      return TorchMissing(python, fmt::format("this Python can't import {}", name));
    }
  }
  const std::string torch = (*hello)["torch"].get<std::string>();
  int major = 0, minor = 0;
  if (std::sscanf(torch.c_str(), "%d.%d", &major, &minor) != 2 || major < kMinTorchMajor ||
      (major == kMinTorchMajor && minor < kMinTorchMinor)) {
    return Fail(ErrorKind::kEnvironment, "torch_too_old",
                fmt::format("torch {} is installed where {}.{} or later is needed; upgrade torch "
                            "or name another Python with --python",
                            torch, kMinTorchMajor, kMinTorchMinor),
                python);
  }
  return hello;
}

}  // namespace kernelopt
