#include "device/error_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kernelopt {
namespace {

double RootMean(double sum, int64_t elements) {
  return elements > 0 ? std::sqrt(sum / static_cast<double>(elements)) : 0;
}

}  // namespace

void ErrorPool::Add(const KoptStats& stats, int set) {
  max_z = std::max(max_z, stats.max_z);
  own_max_z = std::max(own_max_z, stats.own_max_z);
  sum_z2 += stats.sum_z2;
  own_sum_z2 += stats.own_sum_z2;
  elements += stats.compared;
  last_set = set;
}

void ErrorPool::Add(const ErrorPool& pool) {
  max_z = std::max(max_z, pool.max_z);
  own_max_z = std::max(own_max_z, pool.own_max_z);
  sum_z2 += pool.sum_z2;
  own_sum_z2 += pool.own_sum_z2;
  elements += pool.elements;
  last_set = std::max(last_set, pool.last_set);
}

double ErrorPool::Rms() const {
  return RootMean(sum_z2, elements);
}
double ErrorPool::OwnRms() const {
  return RootMean(own_sum_z2, elements);
}

std::string Violation(const ErrorPool& pool, const ErrorRule& rule, bool has_twin, bool exact) {
  if (!has_twin) {
    if (pool.Rms() <= rule.max_rms) return "";
    return fmt::format("is {:.3g} scales off in the mean, wanted at most {:.3g}", pool.Rms(),
                       rule.max_rms);
  }
  if (exact && pool.own_max_z == 0 && pool.max_z > 0) {
    return fmt::format("is {:.3g} scales off where the compiler's kernel is exact", pool.max_z);
  }
  const double rms = std::max(rule.rms_floor, rule.rms_factor * pool.OwnRms() + rule.rms_slack);
  if (!(pool.Rms() <= rms)) {
    return fmt::format(
        "is {:.3g} scales off in the mean, wanted at most {:.3g} (the compiler's "
        "kernel: {:.3g})",
        pool.Rms(), rms, pool.OwnRms());
  }
  const double max = std::max(rule.max_floor, rule.max_factor * pool.own_max_z + rule.max_slack);
  if (!(pool.max_z <= max)) {
    return fmt::format(
        "has an element {:.3g} scales off, wanted at most {:.3g} (the compiler's "
        "kernel: {:.3g})",
        pool.max_z, max, pool.own_max_z);
  }
  return "";
}

}  // namespace kernelopt
