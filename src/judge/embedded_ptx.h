// The PTX of kernels.cl, a text that ends in a zero byte (made by the build).
#pragma once

namespace kernelopt {

extern const char kJudgePtx[];

}  // namespace kernelopt
