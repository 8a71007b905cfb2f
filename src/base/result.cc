#include "base/result.h"

namespace kernelopt {

std::string Error::ToString() const {
  return where.empty() ? message : where + ": " + message;
}

}  // namespace kernelopt
