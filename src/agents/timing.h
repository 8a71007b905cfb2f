// Timing candidates at the call sites of one kernel, weighted as the model
// launches them.
//
// Sites that differ in nothing but their place are measured once and counted
// as often as they occur. Every job interleaves the candidates with the
// compiler's kernel of that site, so that only ratios are taken from it; they
// are scaled by the compiler's times, which are measured once at the start.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agents/search.h"

namespace kernelopt {

/// One compiled kernel with its configuration.
struct Binary {
  LaunchConfig config;
  CompileOutput compiled;
};

class SiteTimer {
 public:
  /// `baselines` by LaunchConfig::ToString of each site's own configuration.
  SiteTimer(const SearchSubject& subject, Judge& judge,
            const std::map<std::string, Binary>& baselines);

  /// Measures the compiler's kernel at every site. Errors: the judge's.
  Status MeasureBaseline(int rounds);

  /// Time of one model call over all sites, as in the model.
  double BaselineUs() const;
  /// The same at the floor; 0 where a floor is unknown.
  double FloorUs() const;

  struct Timing {
    double time_us = 0;      ///< over all sites; 0 = failed
    double baseline_us = 0;  ///< of the same sites and state
    std::string failure;     ///< the judge's error code where it failed
  };
  /// One result a binary. `all_sites` false: only the site group with the
  /// largest share, the others scaled alike. A job that fails as a whole is
  /// repeated with each binary alone, so that the others still get their times.
  std::vector<Timing> Time(const std::vector<const Binary*>& binaries, int rounds, bool all_sites,
                           CacheState state);

  /// Index of the site with the largest share of the time.
  size_t MainSite() const { return groups_.front().site; }

 private:
  struct Group {
    size_t site = 0;  ///< index into the subject's sites
    int count = 0;
    double baseline_us = 0;  ///< of one launch
  };

  /// Ratios candidate over baseline at one site; below 0 = failed.
  Result<std::vector<double>> Ratios(const Group& group, const std::vector<const Binary*>& binaries,
                                     int rounds, CacheState state,
                                     std::vector<std::string>* failures, double* baseline_us);

  const SearchSubject& subject_;
  Judge& judge_;
  const std::map<std::string, Binary>& baselines_;
  std::vector<Group> groups_;
};

double Median(std::vector<double> values);

}  // namespace kernelopt
