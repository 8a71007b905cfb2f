#include "gates/student_t.h"

#include <cmath>
#include <limits>

namespace kernelopt {
namespace {

/// The continued fraction of the incomplete beta function (Lentz's method).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  if (std::fabs(d) < kTiny) d = kTiny;
  d = 1 / d;
  double result = d;
  for (int m = 1; m <= 500; ++m) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 + even * d;
    if (std::fabs(d) < kTiny) d = kTiny;
    c = 1 + even / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    result *= d * c;
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 + odd * d;
    if (std::fabs(d) < kTiny) d = kTiny;
    c = 1 + odd / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    double factor = d * c;
    result *= factor;
    if (std::fabs(factor - 1) < 1e-15) break;
  }
  return result;
}

/// Regularised incomplete beta function I_x(a, b).
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) +
                          b * std::log1p(-x));
  // The fraction converges fast only on one side of the mean.
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

}  // namespace

double StudentTCdf(double t, double degrees) {
  double tail = 0.5 * IncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t));
  return t > 0 ? 1 - tail : tail;
}

double StudentTQuantile(double p, double degrees) {
  if (p == 0.5) return 0;
  if (p < 0.5) return -StudentTQuantile(1 - p, degrees);
  // Upper tail as a function of t falls steadily: bracket, then halve.
  auto tail = [&](double t) {
    return 0.5 * IncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t));
  };
  double high = 1;
  while (tail(high) > 1 - p && high < std::numeric_limits<double>::max() / 4) high *= 2;
  double low = 0;
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    double middle = 0.5 * (low + high);
    (tail(middle) > 1 - p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace kernelopt
