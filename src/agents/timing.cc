#include "agents/timing.h"

#include <fmt/format.h>

#include <algorithm>

namespace kernelopt {
namespace {

/// Programs a job, the baseline among them: more would keep a device busy for
/// long and lose much when one of them fails.
constexpr size_t kProgramsAJob = 17;

DataSet TimingData(const Site& site) {
  for (const StorageSpec& storage : site.storages)
    if (storage.has_envelope || !storage.contents_path.empty())
      return {DataFamily::kCaptured, 0, true};
  return {DataFamily::kUniform, 0, false};
}

/// Text that is equal for sites that time alike.
std::string Identity(const BuiltSite& site) {
  std::string text = site.compiler_config.ToString();
  for (const auto& [name, value] : site.numels) text += fmt::format(" {}={}", name, value);
  for (const StorageSpec& storage : site.site.storages)
    text += fmt::format(" {}:{}", storage.bytes, static_cast<int>(storage.dtype));
  for (const ArgumentSpec& argument : site.site.arguments)
    text += fmt::format(" {}+{}", argument.storage, argument.byte_offset);
  for (int touched : site.touched) text += fmt::format(" t{}", touched);
  return text;
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

SiteTimer::SiteTimer(const SearchSubject& subject, Judge& judge,
                     const std::map<std::string, Binary>& baselines)
    : subject_(subject), judge_(judge), baselines_(baselines) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < subject.sites.size(); ++i) {
    auto [it, is_new] = index.emplace(Identity(subject.sites[i]), groups_.size());
    if (is_new) groups_.push_back({i, 0, 0});
    ++groups_[it->second].count;
  }
  std::stable_sort(groups_.begin(), groups_.end(), [&](const Group& a, const Group& b) {
    return a.count * subject_.sites[a.site].device_us > b.count * subject_.sites[b.site].device_us;
  });
}

Status SiteTimer::MeasureBaseline(int rounds) {
  for (Group& group : groups_) {
    std::vector<std::string> failures;
    (void)KOPT_TRY(
        Ratios(group, {}, rounds, CacheState::kAsInModel, &failures, &group.baseline_us));
    if (group.baseline_us <= 0) {
      return Fail(ErrorKind::kInternal, failures.empty() ? "died" : failures.front(),
                  "the compiler's kernel can't be timed", subject_.sites[group.site].site.name);
    }
  }
  // From now on by what was measured.
  std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
    return a.count * a.baseline_us > b.count * b.baseline_us;
  });
  return {};
}

double SiteTimer::BaselineUs() const {
  double us = 0;
  for (const Group& group : groups_) us += group.count * group.baseline_us;
  return us;
}

double SiteTimer::FloorUs() const {
  double us = 0;
  for (const BuiltSite& site : subject_.sites) {
    if (site.floor_us <= 0) return 0;
    us += site.floor_us;
  }
  return us;
}

Result<std::vector<double>> SiteTimer::Ratios(const Group& group,
                                              const std::vector<const Binary*>& binaries,
                                              int rounds, CacheState state,
                                              std::vector<std::string>* failures,
                                              double* baseline_us) {
  const BuiltSite& site = subject_.sites[group.site];
  const Binary& baseline = baselines_.at(site.compiler_config.ToString());
  TimeJob job;
  job.site = site.site;
  job.touched = site.touched;
  job.state = state;
  job.rounds = rounds;
  job.data = TimingData(site.site);
  job.programs.push_back(
      KOPT_TRY(ProgramAt(*subject_.kernel, baseline.config, baseline.compiled, site)));
  std::vector<double> ratios(binaries.size(), -1);
  failures->assign(binaries.size(), "");
  std::vector<size_t> program_of;  // of each program behind the baseline
  for (size_t i = 0; i < binaries.size(); ++i) {
    auto program = ProgramAt(*subject_.kernel, binaries[i]->config, binaries[i]->compiled, site);
    if (!program) {
      (*failures)[i] = program.error().code;
      continue;
    }
    program_of.push_back(i);
    job.programs.push_back(std::move(*program));
  }
  // Each sample costs the launch and a flush of the caches before it.
  double expected_us =
      static_cast<double>(job.programs.size()) * rounds * (10 * site.device_us + 500);
  job.time_limit_ms = 20000 + static_cast<int>(expected_us / 1000);
  TimeResult result = KOPT_TRY(judge_.Time(job));
  if (result.samples.size() != job.programs.size() || result.samples[0].empty()) {
    return Fail(ErrorKind::kInternal, "died", "the compiler's kernel gave no times",
                site.site.name);
  }
  const std::vector<double>& base = result.samples[0];
  *baseline_us = Median(base);
  for (size_t p = 1; p < job.programs.size(); ++p) {
    const std::vector<double>& samples = result.samples[p];
    size_t i = program_of[p - 1];
    if (samples.empty()) {
      (*failures)[i] = p < result.failures.size() ? result.failures[p] : "died";
      continue;
    }
    // Round by round: what changes slowly changes both.
    std::vector<double> quotients;
    for (size_t r = 0; r < std::min(samples.size(), base.size()); ++r)
      if (base[r] > 0) quotients.push_back(samples[r] / base[r]);
    ratios[i] = Median(std::move(quotients));
  }
  return ratios;
}

std::vector<SiteTimer::Timing> SiteTimer::Time(const std::vector<const Binary*>& binaries,
                                               int rounds, bool all_sites, CacheState state) {
  std::vector<Timing> timings(binaries.size());
  std::vector<double> covered(binaries.size(), 0);
  for (const Group& group : groups_) {
    if (!all_sites && &group != &groups_.front()) break;
    for (size_t begin = 0; begin < binaries.size(); begin += kProgramsAJob - 1) {
      size_t end = std::min(binaries.size(), begin + kProgramsAJob - 1);
      std::vector<size_t> alive;
      std::vector<const Binary*> batch;
      for (size_t i = begin; i < end; ++i) {
        if (!timings[i].failure.empty()) continue;
        alive.push_back(i);
        batch.push_back(binaries[i]);
      }
      if (batch.empty()) continue;
      auto add = [&](size_t i, double ratio, const std::string& failure, double baseline_us) {
        if (ratio <= 0) {
          timings[i].failure = failure.empty() ? "died" : failure;
          return;
        }
        double weight =
            group.count * (state == CacheState::kCold ? baseline_us : group.baseline_us);
        timings[i].time_us += weight * ratio;
        timings[i].baseline_us += weight;
        covered[i] += group.count * group.baseline_us;
      };
      std::vector<std::string> failures;
      double baseline_us = 0;
      auto ratios = Ratios(group, batch, rounds, state, &failures, &baseline_us);
      if (ratios) {
        for (size_t b = 0; b < batch.size(); ++b)
          add(alive[b], (*ratios)[b], failures[b], baseline_us);
        continue;
      }
      for (size_t b = 0; b < batch.size(); ++b) {
        auto alone = batch.size() == 1
                         ? Result<std::vector<double>>(std::unexpected(ratios.error()))
                         : Ratios(group, {batch[b]}, rounds, state, &failures, &baseline_us);
        if (alone) {
          add(alive[b], (*alone)[0], failures[0], baseline_us);
        } else {
          timings[alive[b]].failure = alone.error().code;
        }
      }
    }
  }
  for (size_t i = 0; i < timings.size(); ++i) {
    if (!timings[i].failure.empty()) {
      timings[i].time_us = timings[i].baseline_us = 0;
    } else if (covered[i] > 0) {
      double scale = BaselineUs() / covered[i];
      timings[i].time_us *= scale;
      timings[i].baseline_us *= scale;
    }
  }
  return timings;
}

}  // namespace kernelopt
