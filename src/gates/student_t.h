// Student's t distribution, for confidence bounds over few samples.
#pragma once

namespace kernelopt {

/// P(T <= t) with `degrees` > 0 degrees of freedom (need not be whole).
double StudentTCdf(double t, double degrees);

/// The t with P(T <= t) = p, 0 < p < 1.
double StudentTQuantile(double p, double degrees);

}  // namespace kernelopt
