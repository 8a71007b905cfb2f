// The PTX of test_kernels.cl.
#pragma once

namespace kernelopt {

extern const char kTestPtx[];

}  // namespace kernelopt
