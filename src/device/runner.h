// Gate 2's measurement: runs a candidate beside the compiler's kernel on the
// storages of a call site and compares every byte of them.
//
// For each data set: the baseline under a first poison gives the reference;
// runs of it on inputs moved by one random ulp give the conditioning of each
// element (the error rule of device/judge.h; five times as many before a value
// is called wrong, since few give some elements too small a scale); the candidate
// runs `repeats` times; both run again under a second poison, so that an element which one
// writes and the other does not differs under at least one of them; and the
// candidate runs twice in a row without refilling where it does not read what
// it writes. Storages that the baseline does not write, and canaries around
// all of them, must keep their bytes.
//
// Memory: the site's storages, a copy of the written ones, and four bytes a
// written float element. Comparison runs on the device.
#pragma once

#include "device/kernel_runtime.h"

namespace kernelopt {

/// Errors have the codes of device/judge.h; `where` is "baseline" or
/// "candidate" where a launch is to blame.
Result<CheckResult> RunCheck(KernelRuntime& runtime, const CheckJob& job);

}  // namespace kernelopt
