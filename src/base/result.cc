#include "base/result.h"

namespace kernelopt {

std::string_view KindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal:
      return "internal";
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kEnvironment:
      return "environment";
    case ErrorKind::kModel:
      return "model";
    case ErrorKind::kInterrupted:
      return "interrupted";
    case ErrorKind::kMismatch:
      return "mismatch";
    case ErrorKind::kOutdated:
      return "outdated";
  }
  return "internal";
}

std::string Error::ToString() const {
  return where.empty() ? message : where + ": " + message;
}

}  // namespace kernelopt
