// Times programs at one call site, interleaved.
//
// Cold: the L2 cache is flushed before each sample. As in the model: flushed,
// then the storages that the model used just before are read again, oldest
// first. Kernels under about 20 us are timed as one graph of up to 20 launches,
// each over its own copy of the storages, so that every launch meets the cache
// state asked for; there are as many launches as copies fit (in memory, and in
// the cache for those that should be in it). All programs of a job use the same
// number. Rounds go forwards and backwards in turn.
#pragma once

#include "device/kernel_runtime.h"

namespace kernelopt {

/// A program that can't be loaded or launched gets a failure and no samples;
/// one that makes the device sick ends the call with error sick_device and
/// `where` = "program N". Errors otherwise have the codes of device/judge.h.
Result<TimeResult> RunTime(KernelRuntime& runtime, const TimeJob& job);

}  // namespace kernelopt
