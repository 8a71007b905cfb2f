#include <nlohmann/json.hpp>

#include "inductor/module.h"

namespace kernelopt {
namespace {

Json ToJson(const Span& span) {
  return Json::array({span.begin, span.end});
}

Json ToJson(const Kernel& kernel) {
  Json arguments = Json::array();
  for (const KernelArgument& argument : kernel.arguments) {
    arguments.push_back({{"name", argument.name},
                         {"annotation", argument.annotation},
                         {"type", argument.triton_type}});
  }
  return {{"name", kernel.name},
          {"entry", kernel.entry},
          {"key", kernel.key},
          {"decorator", kernel.decorator},
          {"size_hints", *kernel.size_hints},
          {"reduction_hint", kernel.reduction_hint},
          {"tile_hint", kernel.tile_hint},
          {"grid_type", kernel.grid_type},
          {"arguments", std::move(arguments)},
          {"mutated", kernel.mutated},
          {"triton_meta", *kernel.triton_meta},
          {"inductor_meta", *kernel.inductor_meta},
          {"device", kernel.device_str},
          {"user_path", kernel.user_path},
          {"problem", kernel.problem},
          {"assignment", ToJson(kernel.assignment)},
          {"source", ToJson(kernel.source)},
          {"function", ToJson(kernel.function)}};
}

}  // namespace

Json ToJson(const Module& module) {
  Json kernels = Json::array(), launches = Json::array(), externs = Json::array();
  for (const Kernel& kernel : module.kernels) kernels.push_back(ToJson(kernel));
  for (const Launch& launch : module.launches) {
    launches.push_back({{"kernel", launch.kernel},
                        {"function", launch.function},
                        {"arguments", launch.arguments},
                        {"stream", launch.stream},
                        {"span", ToJson(launch.span)}});
  }
  for (const ExternCall& call : module.externs) {
    externs.push_back({{"target", call.target},
                       {"function", call.function},
                       {"arguments", call.arguments},
                       {"span", ToJson(call.span)}});
  }
  return {{"key", module.key},
          {"phase", module.phase},
          {"kernels", std::move(kernels)},
          {"launches", std::move(launches)},
          {"externs", std::move(externs)},
          {"used_elsewhere", module.used_elsewhere}};
}

}  // namespace kernelopt
