// The capture record: what a compiled model did, in neutral terms.
//
// capture.json is written by the model worker (python/kernelopt/capture.py)
// beside modules/<sha256>.py, the generated text, and blobs/<sha256>, contents
// of integer tensors. Inductor is one way to fill it. docs/protocol.md has the
// layout; the schema version comes first and unknown fields are ignored.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kernelopt {

inline constexpr int kCaptureSchema = 1;

/// A tensor as it was passed: a view of a storage. Sizes, strides and the
/// offset are in elements.
struct TensorRef {
  int storage = -1;
  std::string dtype;  ///< "fp32", "bf16", "i64", "i1", ... (Triton's spelling)
  std::vector<int64_t> size;
  std::vector<int64_t> stride;
  int64_t offset = 0;
  /// Observed values: float minimum/maximum over finite values, or integer
  /// range. Absent for tensors that were not looked at.
  bool has_values = false;
  double low = 0;
  double high = 0;
  bool has_nonfinite = false;
  std::string contents;  ///< blob name (SHA-256) of an integer tensor's storage, or empty
};

struct EventArgument {
  enum class Kind { kTensor, kInt, kFloat, kBool, kNone, kOther };
  Kind kind = Kind::kNone;
  TensorRef tensor;
  int64_t int_value = 0;
  double float_value = 0;
  std::string text;  ///< kOther: how it prints
};

/// One thing that happened, in order.
struct Event {
  enum class Kind { kAlloc, kFree, kLaunch, kExtern, kCopy, kZero, kReturn };
  Kind kind = Kind::kLaunch;
  int storage = -1;                      ///< alloc, free, zero
  std::string name;                      ///< launch: kernel name; extern: operator ("aten.mm.out")
  std::vector<EventArgument> arguments;  ///< launch, extern, copy, return
  std::array<int64_t, 3> grid = {1, 1, 1};  ///< launch
  std::map<std::string, int64_t> config;    ///< launch: XBLOCK, ..., num_warps, num_stages
  std::string binary_hash;                  ///< launch: of the compiler's kernel as loaded
  double device_us = 0;                     ///< launch, extern: mean device time
};

struct StorageRecord {
  int id = -1;
  int64_t bytes = 0;
  std::string kind;  ///< input | parameter | buffer | constant | intermediate
};

/// One run of one generated module.
struct Graph {
  std::string module;  ///< SHA-256 of the module's text
  std::string phase;   ///< inference | forward | backward
  std::vector<Event> events;
};

struct Variant {
  std::string mode = "default";  ///< torch.compile mode
  bool train = false;
  int input_set = 0;
  std::vector<StorageRecord> storages;
  std::vector<Graph> graphs;
  int graph_breaks = 0;
  double compiled_us = 0;  ///< wall time of one call, median
  double eager_us = 0;
  double device_us = 0;  ///< sum of device time of one call

  /// "default", "default+train", "reduce-overhead", "default#1"
  std::string Name() const;
};

struct Capture {
  int schema = kCaptureSchema;
  std::string torch, triton, python;
  std::string device_name;  ///< "NVIDIA H200"
  int compute_capability = 0;
  int sm_count = 0;
  int64_t l2_bytes = 0;
  std::string model_file;
  std::string model_sha256;
  std::string entry;  ///< "module:function" or empty
  std::vector<Variant> variants;
  std::map<std::string, std::string> modules;  ///< SHA-256 -> text
  std::string folder;  ///< where it was read from; blobs are in folder/blobs

  std::string BlobPath(const std::string& name) const;
};

/// Reads FOLDER/capture.json and the modules beside it; every module's text is
/// checked against its name. Errors: kUsage "no_such_file", "bad_field",
/// "bad_schema", "changed_module".
Result<Capture> ReadCapture(const std::string& folder);

/// The same for the text of a capture.json that belongs to FOLDER.
Result<Capture> ParseCapture(std::string_view json, const std::string& folder);

}  // namespace kernelopt
