// Generated data of the judge, on the CPU: any process can reproduce any value
// that a kernel was given, from the family, the seed, the storage's number and
// the element's index alone. The GPU makes the same bits from the same text
// (element_code.h).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/element_code.h"
#include "device/judge.h"

namespace kernelopt {

/// The draw of storage number `storage` of a site under `data`;
/// `perturbation` n > 0 moves every float for the n-th time (KoptStepsOfOne), -n by one
/// ulp. Errors: an empty integer range, an envelope that is empty or not finite, a size
/// that is no multiple of the element's: kUsage "job_error".
Result<KoptDraw> MakeDraw(const StorageSpec& spec, int storage, const DataSet& data,
                          int perturbation = 0);

/// The bits of element `index`, in the low bytes.
uint64_t DrawElement(const KoptDraw& draw, int64_t index);

/// The value of an element's bits as a double (integers are rounded).
double ElementValue(uint64_t bits, DType dtype);

/// Reads and writes one element of an array of `dtype`.
uint64_t LoadElement(const void* array, int64_t index, DType dtype);
void StoreElement(void* array, int64_t index, DType dtype, uint64_t bits);

}  // namespace kernelopt
