// The model worker: torch and the user's model, in a trusted Python process.
//
// Every method is one request to a fresh or kept process; docs/protocol.md
// has the fields. Raw measurements come back, verdicts are made by the gates.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_value.h"
#include "base/result.h"

namespace kernelopt {

struct ModelSpec {
  std::string file;   ///< MODEL.py
  std::string entry;  ///< "module:function" or empty: Model, get_inputs, get_init_inputs
};

struct VariantSpec {
  std::string mode = "default";  ///< torch.compile mode
  bool train = false;
  int input_set = 0;

  std::string Name() const;  ///< as Variant::Name
};

/// One output, mutated input, buffer or gradient of a model, compared.
/// Errors are in units of scale = ulp(float64 reference in the tensor's dtype)
/// + conditioning J (docs/numerics.md).
struct TensorComparison {
  std::string name;  ///< "output 0", "buffer bn.running_mean", "grad fc.weight"
  std::string dtype;
  bool same_layout = true;     ///< shape, dtype, strides, aliasing equal to the compiled baseline
  bool bitwise_equal = false;  ///< stitched == compiled baseline, every byte
  bool has_float64 = false;    ///< the three below are set
  double rms_stitched = 0, rms_compiled = 0, rms_eager = 0;
  double max_stitched = 0, max_compiled = 0, max_eager = 0;
  int64_t nonfinite_mismatches = 0;  ///< class differs from float64's and from the compiler's
  double allclose_1e4 = 0;           ///< published tier, shown only: share within 1e-4 of eager
};

/// One (precision setting, seed, weights, inputs) of gate 3.
struct ModelComparison {
  std::string setting;  ///< "as_set" | "strict" (TF32 off, deterministic)
  int seed = 0;
  std::string data;  ///< "user" | "zero_mean"
  bool redrawn_weights = false;
  int consecutive_calls = 1;
  std::vector<TensorComparison> tensors;
};

/// Every launch of one swapped kernel beside the compiler's, on the model's real
/// storages; z in units of ulp + conditioning, as in gate 2.
struct InSituComparison {
  std::string kernel;  ///< its name in the generated module
  std::string key;
  int64_t launches = 0;
  bool bitwise_equal = true;
  double max_z = 0, rms_z = 0;
  double own_z = 0;  ///< largest z of the compiler's kernel on inputs an ulp away; 0 = not measured
  int64_t integer_mismatches = 0;
  int64_t nonfinite_mismatches = 0;
  int64_t skipped = 0;  ///< inside a graph capture: not comparable
};

struct ModelCheck {
  std::vector<ModelComparison> comparisons;
  std::vector<InSituComparison> in_situ;
  std::vector<std::string> swapped;  ///< kernel keys the loader swapped
  JsonValue misses;                  ///< loader's misses with reason codes
  std::vector<std::string> externs_compiled, externs_stitched;  ///< operators in order
  /// {"compiled": {kernel name: launches a call}, "stitched": {...}}, from the
  /// profiler, every kernel on the GPU; a swapped one is called NAME__kopt.
  std::map<std::string, std::map<std::string, int64_t>> launches;
  bool random = false;       ///< the model draws random numbers: bitwise rule
  bool degenerate = false;   ///< output constant or independent of the input
  bool float64_path = true;  ///< false: no float64 run was possible
  std::string note;
};

/// Raw samples of gate 4: log-ratios are made by the gate.
struct ModelTiming {
  /// pairs[p][b] = {A1, B1, B2, A2}, microseconds a call; A compiler, B stitched.
  std::vector<std::vector<std::array<double, 4>>> pairs;
  double first_call_compiled_s = 0, first_call_stitched_s = 0;
  int64_t peak_bytes_compiled = 0, peak_bytes_stitched = 0;
  std::vector<std::string> swapped;
  bool interleaved = true;  ///< false: both did not fit, whole processes alternated
};

class ModelWorker {
 public:
  using Progress = std::function<void(const std::string& step)>;
  virtual ~ModelWorker() = default;

  /// Versions and the GPU: {"torch","triton","python","cuda":bool,"device":{...}}.
  /// Errors: kEnvironment "torch_missing", "torch_too_old", "no_gpu" is not an
  /// error here (cuda is false).
  virtual Result<Json> Hello() = 0;

  /// Compiles and records the model into `folder` (capture.json, modules/,
  /// blobs/). Errors of kind kModel: "no_model", "syntax_error",
  /// "inputs_raise", "forward_raises", "cpu_model".
  virtual Status Capture(const ModelSpec& model, const std::vector<VariantSpec>& variants,
                         const std::string& folder, const Progress& progress) = 0;

  /// Begins to start the processes of Check, Noise and Time and returns at once;
  /// saves waiting later.
  virtual void Prepare() {}

  /// Gate 3 in a fresh process; `pack` is a pack folder (may be a draft).
  virtual Result<ModelCheck> Check(const ModelSpec& model, const VariantSpec& variant,
                                   const std::string& pack, const std::vector<int>& seeds,
                                   const Progress& progress) = 0;

  /// Gate 4: so many independent measurements of `pairs` pairs of fresh processes
  /// each. Their processes start together where they fit, since starting takes
  /// longer than timing. Errors: "out_of_memory", "died", "timeout".
  virtual Result<std::vector<ModelTiming>> Time(const ModelSpec& model, const VariantSpec& variant,
                                                const std::string& pack, int measurements,
                                                int pairs, int blocks,
                                                const Progress& progress) = 0;

  /// A/A times of `processes` fresh processes, microseconds, for the doctor.
  virtual Result<std::vector<double>> Noise(int processes, const Progress& progress) = 0;
};

}  // namespace kernelopt
