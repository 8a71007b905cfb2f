// The report of a run: its data, a page and a summary. Reads only the store.
//
//   Json data = KOPT_TRY(ReportData(*store));
//   WriteFileAtomic("report.html", ReportPage(data));
//   std::cout << ReportSummary(data);
//
// The page is one file that loads nothing: charts are inline SVG made here
// (page.cc), where a charting library would bring a script of megabytes or a
// network. Everything that comes from a run goes through the typed writer of
// html.h, which escapes it.
//
// What the run has to record, as JSON; whatever is missing is shown as such,
// so that a killed or kept run has its report too:
//
//   fact "model"     {"file","sha256","entry"}
//   fact "gpu"       {"name","uuid","compute_capability","sm_count","mig"}
//   fact "versions"  {"kernelopt","torch","triton","python","driver"}
//   fact "policy"    "strict"
//   fact "preview"   true
//   fact "estimate"  {"device_us","floor_us","at_most": 1.03}
//   fact "outcome"   {"result": "improved"|"kept"|"not_measured"|..., "reason","message","pack"}
//   fact "variant/NAME"  {"mode","train","input_set","compiled_us","ours_us","eager_us",
//                     "speedup":{"median","lo","hi"},"accepted","reason","message"}
//   fact "kernel/KEY"  {"outcome":"improved"|"kept"|"refused","reason","message",
//                     "replacement": id,"compiler_us","ours_us","config_before","config_after",
//                     "label","origin","change"}
//   kernel detail    {"launches","compiler_us","floor_us","gain_us","decorator","config"}
//
// Times are microseconds: `compiler_us`, `ours_us` and `floor_us` of one
// launch, `gain_us` of one call of the model. Configurations are text or
// objects. Verdicts come from the store's verdicts: a kernel's are those on
// its replacement, or, where none was accepted, the furthest that any came.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "store/store.h"

namespace kernelopt {

/// {"model","gpu","versions","policy","preview","estimate","outcome","run",
///  "variants":[fact + "name" + "verdicts"], "kernels":[detail + fact + "name","key",
///  "candidates","gates":[{"gate","state":"passed"|"failed"|"not_reached","reason","message"}]],
///  "steps":[{"name","seconds","state"}], "decisions":[...]}; kernels in order of gain.
Result<Json> ReportData(const Store& store);

/// One self-contained HTML page, light and dark, no script.
std::string ReportPage(const Json& data);

/// At most 25 lines of at most 100 columns of text, for `kernelopt show`.
std::string ReportSummary(const Json& data);

}  // namespace kernelopt
