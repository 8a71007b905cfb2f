// The page's style sheet. Internal to this folder.
#pragma once

#include "report/html.h"

namespace kernelopt {

/// A `style` element.
Html StyleSheet();

}  // namespace kernelopt
