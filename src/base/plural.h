// Counts in sentences.
#pragma once

#include <string>
#include <string_view>

namespace kernelopt {

/// "1 kernel", "3 kernels".
inline std::string Plural(size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

}  // namespace kernelopt
