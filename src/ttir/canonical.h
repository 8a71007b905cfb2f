// One text for all TTIR that differs in nothing but names and layout.
#pragma once

#include <string>

#include "ttir/ttir.h"

namespace kernelopt {

/// The module's text with values, blocks and symbols numbered in order of appearance,
/// and no white space but between words. Equal texts do the same.
std::string CanonicalTtir(const TtirModule& module);

}  // namespace kernelopt
