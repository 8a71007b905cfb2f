// Reductions and scans.
#include <algorithm>
#include <cstring>

#include "shadow/lanes.h"
#include "shadow/worker.h"

namespace kernelopt {

void ShadowWorker::Reduce(const ShadowInstruction& each) {
  const ShadowReduction& r = program_.reductions[static_cast<size_t>(each.extra)];
  const int64_t lanes = r.outer * r.length * r.inner;
  work_ += lanes;
  if (r.is_single && r.scan)
    return ScanLanes(r.single, each.kind, At(r.inputs[0]), At(r.outputs[0]), r.outer, r.length,
                     r.inner, r.reverse);
  for (size_t i = 0; i < r.inputs.size(); ++i)
    CopyLanes(SlotBytes(Slot(r.inputs[i]).kind), At(r.work[i]), At(r.inputs[i]),
              Slot(r.inputs[i]).uniform, lanes);
  if (r.is_single)
    return ReduceLanes(r.single, each.kind, At(r.work[0]), At(r.outputs[0]), r.outer, r.length,
                       r.inner);
  if (r.scan) return GeneralScan(r);
  GeneralReduce(r);
}

/// Neighbours are combined, which keeps the order, until one is left.
void ShadowWorker::GeneralReduce(const ShadowReduction& r) {
  for (int64_t length = r.length; length > 1; length /= 2) {
    const int64_t rows = r.outer * length / 2;
    for (size_t k = 0; k < r.work.size(); ++k) {
      const size_t bytes = static_cast<size_t>(SlotBytes(Slot(r.work[k]).kind));
      const size_t row = bytes * static_cast<size_t>(r.inner);
      const char* from = At(r.work[k]);
      char* left = At(r.left[k]);
      char* right = At(r.right[k]);
      if (row == 4) {
        for (int64_t i = 0; i < rows; ++i) {
          std::memcpy(left + 4 * i, from + 8 * i, 4);
          std::memcpy(right + 4 * i, from + 8 * i + 4, 4);
        }
        continue;
      }
      for (int64_t i = 0; i < rows; ++i) {
        const size_t at = static_cast<size_t>(i) * row;
        std::memcpy(left + at, from + 2 * at, row);
        std::memcpy(right + at, from + 2 * at + row, row);
      }
    }
    const int64_t lanes = rows * r.inner;
    for (const ShadowInstruction& each : r.code) Compute(each, each.lanes < 0 ? lanes : each.lanes);
    for (size_t k = 0; k < r.work.size(); ++k)
      CopyLanes(SlotBytes(Slot(r.work[k]).kind), At(r.work[k]), At(r.results[k]),
                Slot(r.results[k]).uniform, lanes);
  }
  for (size_t k = 0; k < r.work.size(); ++k)
    CopyLanes(SlotBytes(Slot(r.work[k]).kind), At(r.outputs[k]), At(r.work[k]), false,
              r.outer * r.inner);
}

void ShadowWorker::GeneralScan(const ShadowReduction& r) {
  const int64_t lanes = r.outer * r.inner;
  for (int64_t step = 0; step < r.length; ++step) {
    const int64_t at = r.reverse ? r.length - 1 - step : step;
    for (size_t k = 0; k < r.work.size(); ++k) {
      const size_t row = static_cast<size_t>(SlotBytes(Slot(r.work[k]).kind) * r.inner);
      // The first element starts the row of sums.
      char* to = step == 0 ? At(r.left[k]) : At(r.right[k]);
      for (int64_t i = 0; i < r.outer; ++i)
        std::memcpy(to + static_cast<size_t>(i) * row,
                    At(r.work[k]) + static_cast<size_t>(i * r.length + at) * row, row);
    }
    if (step > 0) {
      for (const ShadowInstruction& each : r.code)
        Compute(each, each.lanes < 0 ? lanes : each.lanes);
      // All results before any of them is an argument again.
      for (size_t k = 0; k < r.work.size(); ++k)
        CopyLanes(SlotBytes(Slot(r.work[k]).kind), At(r.right[k]), At(r.results[k]),
                  Slot(r.results[k]).uniform, lanes);
      for (size_t k = 0; k < r.work.size(); ++k)
        CopyLanes(SlotBytes(Slot(r.work[k]).kind), At(r.left[k]), At(r.right[k]), false, lanes);
    }
    for (size_t k = 0; k < r.work.size(); ++k) {
      const size_t row = static_cast<size_t>(SlotBytes(Slot(r.work[k]).kind) * r.inner);
      for (int64_t i = 0; i < r.outer; ++i)
        std::memcpy(At(r.outputs[k]) + static_cast<size_t>(i * r.length + at) * row,
                    At(r.left[k]) + static_cast<size_t>(i) * row, row);
    }
  }
}

}  // namespace kernelopt
