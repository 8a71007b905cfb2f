// Functions of one and two floats that kernels call: math.exp, __nv_powf, ...
//
// The host's library is exact to an ulp or so, as the GPU's is; the last bits
// differ between the two.
#pragma once

#include <string_view>

namespace kernelopt {

struct MathFunction {
  std::string_view name;  ///< "exp", as in math.exp, __nv_expf and __nv_exp
  float (*single)(float) = nullptr;
  double (*wide)(double) = nullptr;
};
struct MathFunction2 {
  std::string_view name;
  float (*single)(float, float) = nullptr;
  double (*wide)(double, double) = nullptr;
};

/// The function's index, or -1.
int FindMathFunction(std::string_view name);
int FindMathFunction2(std::string_view name);
const MathFunction& MathFunctionAt(int index);
const MathFunction2& MathFunction2At(int index);

}  // namespace kernelopt
