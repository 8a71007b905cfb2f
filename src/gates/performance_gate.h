// Gate 4: is the model with its replacements faster, beyond the noise?
//
// effect = mean log ratio of A B B A blocks (A compiler, B stitched); accepted
// where the one-sided 99 % lower bound is above 0, the median gain is at
// least `min_gain` and peak memory grew at most 1 %. The bound's variance is
// the larger of what the pairs show among each other and what their blocks
// show within, plus the between-process variance that the doctor measured.
#pragma once

#include <vector>

#include "gates/verdict.h"

namespace kernelopt {

struct ModelTiming;  // workers/model.h

/// What one decision measures: fresh pairs of processes, and A B B A blocks a pair.
inline constexpr int kTimingPairs = 2;
inline constexpr int kTimingBlocks = 8;

struct PerformanceRule {
  double confidence = 0.99;
  double min_gain = 0.005;  ///< of the median
  double max_memory_ratio = 1.01;
  double process_sigma = 0;  ///< of the log time between processes (doctor)
  int process_samples = 0;   ///< processes that it was estimated from
};

struct PerformanceEffect {
  double speedup = 1;         ///< exp(mean log ratio)
  double lower = 1;           ///< one-sided bound at the confidence
  double upper = 1;           ///< of the two-sided interval at 2 x confidence - 1
  double median = 1;          ///< median over blocks
  double standard_error = 0;  ///< of the mean log ratio
  double degrees = 1;         ///< of freedom (Welch-Satterthwaite)
  int pairs = 0, blocks = 0;
};

/// Error: kInternal "no_samples" when there is no block or a time is not positive.
Result<PerformanceEffect> ComputeEffect(const ModelTiming& timing, const PerformanceRule& rule);

/// Reasons: no_samples, not_faster, gain_too_small, more_memory.
Verdict JudgePerformance(const ModelTiming& timing, const PerformanceRule& rule);

/// Standard deviation of the log of times, 0 for fewer than two.
double LogSigma(const std::vector<double>& times);

}  // namespace kernelopt
