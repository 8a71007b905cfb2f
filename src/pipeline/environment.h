// What the steps work with: interfaces only, so that the whole pipeline runs
// in unit tests with the fakes of src/testing (pipeline/machine.h has the real
// ones).
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/event.h"
#include "device/judge.h"
#include "store/store.h"
#include "workers/compile.h"
#include "workers/model.h"

namespace kernelopt {

struct Environment {
  Judge* judge = nullptr;        ///< null: no GPU, nothing is measured
  ModelWorker* model = nullptr;  ///< null with a recorded capture
  Compiler& compiler;
  Store& store;
  const Clock& clock;
  EventSink& events;
  std::function<bool()> cancelled;  ///< the user asked to stop
  std::string cache;                ///< the user's cache folder; doctor's results, locks
  std::string version;              ///< of this program
  std::string program;              ///< its path, for the lines that say how to go on

  /// Error: kInterrupted "interrupted" when the user asked to stop.
  Status CheckCancelled() const {
    if (cancelled && cancelled()) {
      return Fail(ErrorKind::kInterrupted, "interrupted", "stopped as asked");
    }
    return {};
  }
};

/// What results are comparable by (torch and the judge agree on its parts): "NVIDIA H200, sm_90,
/// 132 SMs" and the MIG profile, if any.
std::string GpuId(const DeviceFacts& facts);

}  // namespace kernelopt
