#include "shadow/math_functions.h"

#include <cmath>
#include <span>

namespace kernelopt {
namespace {

constexpr double kPi = 3.14159265358979323846;

double NormalCdf(double x) {
  return 0.5 * std::erfc(-x * 0.70710678118654752440);
}
double Erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  const double y = 1 / (x * x);
  return (1 - y / 2 * (1 - 1.5 * y)) / (x * std::sqrt(kPi));
}
double Exp10(double x) {
  return std::pow(10.0, x);
}
double SinPi(double x) {
  return std::sin(kPi * std::fmod(x, 2.0));
}
double CosPi(double x) {
  return std::cos(kPi * std::fmod(x, 2.0));
}
double Rcbrt(double x) {
  return 1 / std::cbrt(x);
}
double ErfInverse(double y) {
  if (y <= -1 || y >= 1) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
  const double l = std::log(1 - y * y), t = 2 / (kPi * 0.147) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), y);
  for (int i = 0; i < 4; ++i)  // Newton
    x -= (std::erf(x) - y) / (2 / std::sqrt(kPi) * std::exp(-x * x));
  return x;
}
double BesselI0(double x) {
  return std::cyl_bessel_i(0.0, std::fabs(x));
}
double BesselI1(double x) {
  return std::copysign(std::cyl_bessel_i(1.0, std::fabs(x)), x);
}
double BesselJ0(double x) {
  return ::j0(x);
}
double BesselJ1(double x) {
  return ::j1(x);
}
double BesselY0(double x) {
  return ::y0(x);
}
double BesselY1(double x) {
  return ::y1(x);
}
double LogB(double x) {
  return std::logb(x);
}

template <double (*kWide)(double)>
float Single(float x) {
  return static_cast<float>(kWide(x));
}

constexpr MathFunction kFunctions[] = {
    {"exp", expf, exp},
    {"exp2", exp2f, exp2},
    {"exp10", Single<Exp10>, Exp10},
    {"expm1", expm1f, expm1},
    {"log", logf, log},
    {"log2", log2f, log2},
    {"log10", log10f, log10},
    {"log1p", log1pf, log1p},
    {"logb", Single<LogB>, LogB},
    {"sin", sinf, sin},
    {"cos", cosf, cos},
    {"tan", tanf, tan},
    {"sinpi", Single<SinPi>, SinPi},
    {"cospi", Single<CosPi>, CosPi},
    {"asin", asinf, asin},
    {"acos", acosf, acos},
    {"atan", atanf, atan},
    {"sinh", sinhf, sinh},
    {"cosh", coshf, cosh},
    {"tanh", tanhf, tanh},
    {"asinh", asinhf, asinh},
    {"acosh", acoshf, acosh},
    {"atanh", atanhf, atanh},
    {"erf", erff, erf},
    {"erfc", erfcf, erfc},
    {"erfinv", Single<ErfInverse>, ErfInverse},
    {"erfcx", Single<Erfcx>, Erfcx},
    {"normcdf", Single<NormalCdf>, NormalCdf},
    {"lgamma", lgammaf, lgamma},
    {"tgamma", tgammaf, tgamma},
    {"cbrt", cbrtf, cbrt},
    {"rcbrt", Single<Rcbrt>, Rcbrt},
    {"round", roundf, round},
    {"cyl_bessel_i0", Single<BesselI0>, BesselI0},
    {"cyl_bessel_i1", Single<BesselI1>, BesselI1},
    {"j0", Single<BesselJ0>, BesselJ0},
    {"j1", Single<BesselJ1>, BesselJ1},
    {"y0", Single<BesselY0>, BesselY0},
    {"y1", Single<BesselY1>, BesselY1},
};

constexpr MathFunction2 kFunctions2[] = {
    {"pow", powf, pow},
    {"powf", powf, pow},
    {"atan2", atan2f, atan2},
    {"hypot", hypotf, hypot},
    {"nextafter", nextafterf, nextafter},
    {"fdim", fdimf, fdim},
    {"remainder", remainderf, remainder},
};

template <typename T>
int Find(std::span<const T> table, std::string_view name) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace

int FindMathFunction(std::string_view name) {
  return Find<const MathFunction>(kFunctions, name);
}
int FindMathFunction2(std::string_view name) {
  return Find<const MathFunction2>(kFunctions2, name);
}
const MathFunction& MathFunctionAt(int index) {
  return kFunctions[index];
}
const MathFunction2& MathFunction2At(int index) {
  return kFunctions2[index];
}

}  // namespace kernelopt
