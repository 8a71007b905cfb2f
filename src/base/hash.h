// SHA-256: the name of every blob, candidate and canonical key.
#pragma once

#include <string>
#include <string_view>

namespace kernelopt {

/// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

}  // namespace kernelopt
