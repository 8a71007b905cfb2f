// What a gate says: a reason code, one sentence, and evidence.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace kernelopt {

enum class Gate { kStatic = 1, kKernel = 2, kModel = 3, kPerformance = 4 };

struct Verdict {
  Gate gate = Gate::kStatic;
  bool accepted = false;
  std::string reason;    ///< "ok" or a reason code in snake_case (docs/gates.md)
  std::string message;   ///< one sentence
  std::string evidence;  ///< JSON text: what a person needs to check it
};

inline Verdict Accept(Gate gate, std::string message, std::string evidence = "{}") {
  return {gate, true, "ok", std::move(message), std::move(evidence)};
}
inline Verdict Reject(Gate gate, std::string reason, std::string message,
                      std::string evidence = "{}") {
  return {gate, false, std::move(reason), std::move(message), std::move(evidence)};
}

}  // namespace kernelopt
